package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// mostWords is the limit for all pages for users together, but for those of laterPages.
const mostWords = 43_000

// laterPages are about subjects that came after mostWords was set, and docs/json.md is a table of
// fields. Each still has a limit of its own.
var laterPages = []string{
	"docs/adapters.md", "docs/agents.md", "docs/any-language.md", "docs/compared.md", "docs/frameworks.md", "docs/from-redis-locks.md", "docs/http-api.md", "docs/json.md",
	"docs/install-deb.md", "docs/kubernetes.md", "docs/moving-sessions.md", "docs/only-postgres.md", "docs/redlock.md", "docs/releases.md",
	"docs/stores/dynamodb.md", "docs/stores/http.md", "docs/stores/kubernetes.md", "docs/stores/s3.md",
	"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md", "clients/node/README.md", "clients/python/README.md", "clients/shell/README.md", // they were not counted
}

// pageLimits has the limit of each page for users: its words, as wc -w counts them. A page above
// 1,500 words has its reason.
var pageLimits = map[string]int{
	"README.md":                        900,
	"CONTRIBUTING.md":                  1560,
	"CHANGELOG.md":                     1500,
	"SECURITY.md":                      500,
	"examples/README.md":               300,
	"clients/node/README.md":           400,
	"clients/python/README.md":         400,
	"clients/shell/README.md":          400,
	"docs/README.md":                   450,
	"docs/adapters.md":                 1890, // one part for each of twelve tools, with its lines
	"docs/agents.md":                   400,
	"docs/any-language.md":             900,
	"docs/command.md":                  900,
	"docs/compared.md":                 750,
	"docs/compatibility.md":            905,
	"docs/doctor.md":                   950,
	"docs/election.md":                 680,
	"docs/errors.md":                   1410,
	"docs/fences.md":                   780,
	"docs/first-program.md":            790,
	"docs/frameworks.md":               700,
	"docs/from-redis-locks.md":         700,
	"docs/glossary.md":                 980,
	"docs/history.md":                  800,
	"docs/http-api.md":                 900,
	"docs/http-handler.md":             600,
	"docs/install-deb.md":              500,  // from the package to a scrape, all of it typed by .ci/test-release
	"docs/json.md":                     1150, // a table of every field; the tests read it
	"docs/kubernetes.md":               730,
	"docs/measured.md":                 850, // a row for each store
	"docs/monitoring.md":               1150,
	"docs/moving-sessions.md":          910,
	"docs/names.md":                    450,
	"docs/only-postgres.md":            700,
	"docs/performance.md":              1300,
	"docs/php.md":                      1725, // two pages in one: locks and sessions, and the way from Symfony
	"docs/recipes.md":                  1600, // ten whole scripts
	"docs/redlock.md":                  700,
	"docs/releases.md":                 500,
	"docs/repeated-requests.md":        400,
	"docs/web-reference.md":            650,
	"docs/run.md":                      1430,
	"docs/scale.md":                    1225,
	"docs/sessions.md":                 2145, // the only page of a whole subject, with its errors
	"docs/several-names.md":            455,
	"docs/shutdown.md":                 900,
	"docs/slots.md":                    660,
	"docs/stampede.md":                 1190, // with its errors
	"docs/stuck.md":                    1170,
	"docs/tasks.md":                    1150,
	"docs/web.md":                      1155,
	"docs/which-store.md":              850,
	"docs/windows.md":                  300,
	"docs/stores/dynamodb.md":          850,
	"docs/stores/etcd.md":              850,
	"docs/stores/file.md":              1400,
	"docs/stores/http.md":              500,
	"docs/stores/kubernetes.md":        1000,
	"docs/stores/memcached.md":         850,
	"docs/stores/mongodb.md":           850,
	"docs/stores/mysql-advisory.md":    850,
	"docs/stores/postgres-advisory.md": 850,
	"docs/stores/quorum.md":            900,
	"docs/stores/redis.md":             2030, // the store with the most settings, layouts and kinds of servers
	"docs/stores/redissession.md":      850,
	"docs/stores/s3.md":                850,
	"docs/stores/semaphore.md":         850,
	"docs/stores/sql.md":               1500,
	"docs/stores/symfony-sql.md":       850,
	"docs/stores/zookeeper.md":         850,
}

// forUsers reports whether a page is for users. The others are for those who change the code.
func forUsers(name string) bool {
	return path.Ext(name) == ".md" && !strings.HasPrefix(name, "docs/internals/") && !strings.HasPrefix(name, "docs/decisions/") &&
		!strings.HasPrefix(name, ".github/") && name != "docs/design.md" &&
		(strings.HasPrefix(name, "docs/") || path.Base(name) == "README.md" || !strings.Contains(name, "/"))
}

// TestPageSizes checks that each page for users keeps its limit of words, and that all of them
// together keep theirs.
func TestPageSizes(t *testing.T) {
	taste(t)
	report(t, checkSizes(readPages(t), pageLimits, mostWords, laterPages))
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

// checkSizes reports pages without a limit, limits without a page, and pages with too many words.
func checkSizes(pages map[string]string, limits map[string]int, most int, later []string) []string {
	var found []string
	all := 0
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		words := len(strings.Fields(pages[name]))
		if !slices.Contains(later, name) {
			all += words
		}
		switch limit, known := limits[name]; {
		case !known:
			found = append(found, fmt.Sprintf("%s: give it a limit of words in pages_test.go", name))
		case words > limit:
			found = append(found, fmt.Sprintf("%s: %d words, and at most %d are allowed", name, words, limit))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if _, exists := pages[name]; !exists {
			found = append(found, fmt.Sprintf("%s: it has a limit of words, and there is no such page", name))
		}
	}
	if all > most {
		found = append(found, fmt.Sprintf("the pages for users have %d words together, and at most %d are allowed", all, most))
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
	limits := map[string]int{"docs/README.md": 5, "docs/a.md": 2, "docs/c.md": 9}
	want := []string{
		"docs/a.md: 3 words, and at most 2 are allowed",
		"docs/b.md: give it a limit of words in pages_test.go",
		"docs/c.md: it has a limit of words, and there is no such page",
		"the pages for users have 4 words together, and at most 3 are allowed",
	}
	if found := checkSizes(pages, limits, 3, []string{"docs/b.md"}); !slices.Equal(found, want) {
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
