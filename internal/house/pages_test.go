package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// forUsers reports whether a page is for users. The others are for those who change the code.
func forUsers(name string) bool {
	return path.Ext(name) == ".md" && !strings.HasPrefix(name, "docs/internals/") && !strings.HasPrefix(name, "docs/decisions/") &&
		!strings.HasPrefix(name, ".github/") && name != "docs/design.md" &&
		(strings.HasPrefix(name, "docs/") || path.Base(name) == "README.md" || !strings.Contains(name, "/"))
}

// TestIndex checks that the index of docs/ links each page for users.
func TestIndex(t *testing.T) { report(t, checkIndex(readPages(t))) }

// readPages returns the pages for users.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, f := range readHouse(t) {
		if forUsers(f.path) {
			pages[f.path] = string(f.src)
		}
	}
	return pages
}

// checkIndex reports pages in docs/ that docs/README.md does not link.
func checkIndex(pages map[string]string) []string {
	var found []string
	index := pages["docs/README.md"]
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		page, in := strings.CutPrefix(name, "docs/")
		if in && page != "README.md" && !strings.Contains(index, "]("+page+")") && !strings.Contains(index, "]("+page+"#") {
			found = append(found, fmt.Sprintf("docs/README.md: it has no link to %s", page))
		}
	}
	return found
}

func TestIndexBite(t *testing.T) {
	pages := map[string]string{"docs/README.md": "[a](a.md#part)\n", "docs/a.md": "one two three", "docs/b.md": "one two"}
	if found := checkIndex(pages); !slices.Equal(found, []string{"docs/README.md: it has no link to b.md"}) {
		t.Errorf("found %q", found)
	}
	for name, want := range map[string]bool{
		"README.md": true, "docs/a.md": true, "docs/stores/a.md": true, "clients/python/README.md": true, "CHANGELOG.md": true,
		"docs/design.md": false, "docs/internals/a.md": false, "docs/decisions/README.md": false, ".github/x.md": false, "a.go": false,
	} {
		if forUsers(name) != want {
			t.Errorf("forUsers(%q) is %v", name, !want)
		}
	}
}
