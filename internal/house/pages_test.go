package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A shelf holds pages for users, those of one folder.
type shelf struct {
	folder string
	words  int // of all its pages together, as wc -w counts them
}

// shelves are the limits of the pages. A new page takes its words from the others of its shelf.
var shelves = []shelf{
	{"docs/stores/", 17_000},
	{"docs/", 40_000},
	{"", 6_500}, // README.md, CONTRIBUTING.md, those of clients and examples, and so on
}

// mostWords is the limit of a single page.
const mostWords = 2_200

// forUsers reports whether a page is for users. The others are for those who change the code.
func forUsers(name string) bool {
	return path.Ext(name) == ".md" && !strings.HasPrefix(name, "docs/internals/") && !strings.HasPrefix(name, "docs/decisions/") &&
		!strings.HasPrefix(name, ".github/") && name != "docs/design.md" &&
		(strings.HasPrefix(name, "docs/") || path.Base(name) == "README.md" || !strings.Contains(name, "/"))
}

// TestPageSizes checks that each page for users keeps the limit of words, and that each shelf does.
func TestPageSizes(t *testing.T) {
	taste(t)
	report(t, checkSizes(readPages(t), shelves, mostWords))
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

// checkSizes reports pages and shelves with too many words.
func checkSizes(pages map[string]string, shelves []shelf, most int) (found []string) {
	sums := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		words := len(strings.Fields(pages[name]))
		if words > most {
			found = append(found, fmt.Sprintf("%s: %d words, and at most %d are allowed", name, words, most))
		}
		i := slices.IndexFunc(shelves, func(s shelf) bool { return strings.HasPrefix(name, s.folder) })
		sums[shelves[i].folder] += words
	}
	for _, s := range shelves {
		if sums[s.folder] > s.words {
			found = append(found, fmt.Sprintf("the pages in %q have %d words together, and at most %d are allowed", s.folder, sums[s.folder], s.words))
		}
	}
	return found
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

func TestPageSizesBite(t *testing.T) {
	pages := map[string]string{"docs/README.md": "[a](a.md#part)\n", "docs/a.md": "one two three", "docs/b.md": "one two"}
	want := []string{
		"docs/a.md: 3 words, and at most 2 are allowed",
		`the pages in "docs/" have 6 words together, and at most 5 are allowed`,
	}
	if found := checkSizes(pages, []shelf{{"docs/", 5}, {"", 0}}, 2); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
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
