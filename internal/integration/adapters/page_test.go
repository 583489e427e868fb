package adapters

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code of this package is on the page, or the page links to its file.
func TestThePageHasTheCode(t *testing.T) {
	page := page(t, "adapters.md")
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
		if shown++; !strings.Contains(page, "```go\n"+code+"```\n") && !strings.Contains(page, link) {
			t.Errorf("the page neither has the code of %s nor links to it", name)
		}
	}
	if shown < 11 {
		t.Errorf("only %d files have code of the page", shown)
	}
}

var indent = regexp.MustCompile(`(?m)^\t+`)

// Each block of Go on the page is compiled here: it stands in a file of this package, apart from
// its indentation.
func TestTheCodeOfThePageIsHere(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(indent.ReplaceAllString(string(text), ""))
	}
	blocks := strings.Split(page(t, "adapters.md"), "```go\n")[1:]
	if len(blocks) < 8 {
		t.Errorf("only %d blocks", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(all.String(), indent.ReplaceAllString(block, "")) {
			t.Errorf("no file here has\n%s", block)
		}
	}
}

// The versions of the page's table are those of this module.
func TestThePageHasTheVersions(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \[[^|]+\| ([0-9., ]+) \|`).FindAllStringSubmatch(page(t, "adapters.md"), -1)
	if len(rows) < 8 {
		t.Errorf("only %d rows have versions", len(rows))
	}
	for _, row := range rows {
		for version := range strings.SplitSeq(row[1], ", ") {
			if !strings.Contains(string(mod), " v"+version+"\n") {
				t.Errorf("go.mod has no module at version %s", version)
			}
		}
	}
}
