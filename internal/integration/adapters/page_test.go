package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code of this package is on the page, or the page links to its file.
func TestThePageHasTheCode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, code, ok := strings.Cut(string(text), "\n)\n\n") // after the imports
		if !ok || strings.HasSuffix(name, "_test.go") {
			continue
		}
		link := "](../internal/integration/adapters/" + name + ")"
		if shown++; !strings.Contains(string(page), "```go\n"+code+"```\n") && !strings.Contains(string(page), link) {
			t.Errorf("the page neither has the code of %s nor links to it", name)
		}
	}
	if shown < 11 {
		t.Errorf("only %d files have code of the page", shown)
	}
}
