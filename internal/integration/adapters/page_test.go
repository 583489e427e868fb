package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code of this package is on the page, or the page links to its file. The code of libraries
// that are too large for the gate is in testdata/heavy; see make test-adapters.
func TestThePageHasTheCode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*.go", "testdata/heavy/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
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
	if shown < 13 {
		t.Errorf("only %d files have code of the page", shown)
	}
}
