package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code on the page is that of this package.
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
		if shown++; !strings.Contains(string(page), "```go\n"+code+"```\n") {
			t.Errorf("the page does not have the code of %s", name)
		}
	}
	if shown < 9 {
		t.Errorf("only %d files have code of the page", shown)
	}
}
