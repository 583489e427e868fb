package all_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// stores are the packages of stores that open and open/all import, by their directory.
func stores(t *testing.T) []string {
	var dirs []string
	for _, file := range []string{"../open.go", "all.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			if dir, ok := strings.CutPrefix(target, "github.com/padlock-go/padlock/stores/"); ok && dir != "driver" && dir != "open" {
				dir, driver, _ := strings.Cut(dir, "/drivers/") // the store whose databases these drivers open
				dirs = append(dirs, dir)
				if driver == "mysql" {
					dirs = append(dirs, "mysqladvisory") // this driver opens it too
				}
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// pages are the names of pages that differ from those of the packages.
var pages = map[string]string{
	"etcdstore": "etcd", "memcachestore": "memcached", "mongostore": "mongodb", "mysqladvisory": "mysql-advisory", "pgadvisory": "postgres-advisory",
	"dynamostore": "dynamodb", "leasestore": "kubernetes", "semstore": "semaphore", "zkstore": "zookeeper",
}

// A user finds each store that can be opened in the table of docs/which-store.md,
// and its page in docs/stores. And the stores of each package that describes a scheme can be
// opened.
func TestEveryStoreIsDocumented(t *testing.T) {
	which, err := os.ReadFile("../../docs/which-store.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, dir := range stores(t) {
		known[dir] = true
		page, named := pages[dir]
		if !named {
			page = strings.TrimSuffix(dir, "store")
		}
		cell := "| [`" + dir + "`](stores/" + page + ".md)"
		if dir == "memstore" { // it has no page
			cell = "| `" + dir + "` |"
		}
		if !strings.Contains(string(which), cell) {
			t.Errorf("the table of docs/which-store.md has no cell that begins with %s", cell)
		}
		if _, err := os.Stat("../../docs/stores/" + page + ".md"); err != nil && dir != "memstore" {
			t.Errorf("%s has no page: %v", dir, err)
		}
	}
	files, err := filepath.Glob("../../stores/*/scheme.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: found %q", err, files)
	}
	for _, file := range files {
		if dir := filepath.Base(filepath.Dir(file)); dir != "driver" && !known[dir] {
			t.Errorf("%s describes the URLs of a store, and open/all does not open it", file)
		}
	}
}

// Each scheme has what the command and the docs show of it, and its example is a URL of its own.
func TestSchemesAreComplete(t *testing.T) {
	for _, s := range open.Known(every()) {
		_, found, err := open.Parse(s.Example, every())
		switch {
		case s.Help == "" || s.Open == nil:
			t.Errorf("%q: has no help, or cannot be opened", s.Names)
		case err != nil || found.Names[0] != s.Names[0]:
			t.Errorf("%q: its example %s is of %q, %v", s.Names, s.Example, found.Names, err)
		case s.Guarantees == nil && !s.Composite:
			t.Errorf("%q: says nothing of its promises", s.Names)
		case (s.FromSymfony == nil) != (len(s.Symfony) == 0):
			t.Errorf("%q: DSNs without a translation, or the reverse", s.Names)
		}
	}
}

// A program that was built without a store says which package to import, and what to pass.
func TestMissingStoreIsNamed(t *testing.T) {
	hint := regexp.MustCompile(`import github.com/padlock-go/padlock/(\S+) and pass open.Schemes\((\w+)\.`)
	for _, s := range all.Schemes() {
		for _, name := range s.Names {
			_, err := open.Store(t.Context(), name+"://host/")
			found := hint.FindStringSubmatch(fmt.Sprint(err))
			if found == nil || path.Base(found[1]) != found[2] {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, err := os.Stat(filepath.Join("../..", found[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
