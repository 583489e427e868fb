package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The functions that a page shows for copying are in a test of the store, which compiles and calls
// them with the true client, or in a program that a test runs. The page and that file have the same
// text.
func TestFunctions(t *testing.T) {
	tests := map[string]string{
		"docs/stores/etcd.md":   "stores/etcdstore/client_test.go",
		"docs/only-postgres.md": "internal/integration/pages/recipes_test.go",
		"docs/ask.md":           "internal/integration/pages/ask_test.go",
		"docs/election.md":      "internal/integration/pages/ask_test.go",
		"docs/stores/sql.md":    "internal/integration/pages/testdata/transaction.go.txt",
	}
	shown := map[string]int{}
	for _, b := range blocks(t, "go") {
		test, known := tests[b.page]
		if !known || !strings.HasPrefix(b.text, "func ") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, test))
		if err != nil {
			t.Fatal(err)
		}
		shown[b.page]++
		if !strings.Contains(string(text), "\n"+b.text) {
			t.Errorf("%s does not have this text of %s:\n%s", test, b.page, b.text)
		}
	}
	for page := range tests {
		if shown[page] == 0 {
			t.Errorf("%s has no function any more", page)
		}
	}
}
