package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const findingsPage = "docs/internals/findings.md"

const systemsPage = "docs/internals/five-systems.md"

// TestSystemsPage checks that each row of the page of the five systems names tests, and that these
// tests exist. It checks the latter for the page of findings, too.
func TestSystemsPage(t *testing.T) {
	tests := testsOf(readHouse(t))
	report(t, checkSystems(systemsPage, readText(t, systemsPage), tests))
	for _, name := range ofPackage.FindAllStringSubmatch(readText(t, findingsPage), -1) {
		if !tests[name[1]] {
			t.Errorf("%s names %s, and there is no such test", findingsPage, name[1])
		}
	}
}

var ofPackage = regexp.MustCompile("`([a-z0-9/]+:[A-Za-z0-9_]+)[/`]")

// testsOf returns the names that the page uses for the tests of the tree: "session:TestLazy" for a
// function, "drivertest:acquire/contend" for a case of the suite, and the paths of scripts.
func testsOf(files []*houseFile) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		switch {
		case path.Ext(f.path) == ".txtar":
			all[f.path] = true
		case path.Ext(f.path) == ".py":
			for _, name := range pythonTest.FindAllSubmatch(f.src, -1) {
				all["clients/python:"+string(name[1])] = true
			}
		case f.ast == nil:
		case f.test():
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
					all[f.pkg()+":"+fn.Name.Name] = true
				}
			}
		case f.pkg() == "drivertest":
			for _, name := range caseName.FindAllSubmatch(f.src, -1) {
				all["drivertest:"+string(name[1])] = true
			}
		}
	}
	return all
}

var (
	pythonTest = regexp.MustCompile(`def (test_[a-z0-9_]+)\(self`)
	caseName   = regexp.MustCompile(`"([a-z-]+/[a-z0-9-]+)"`)
	named      = regexp.MustCompile("`([^`]*)`")
)

// checkSystems reports rows without a test and tests that do not exist.
func checkSystems(name, page string, tests map[string]bool) []string {
	var found []string
	for _, c := range cells(page) {
		if len(c) != 3 || c[0] == "there" || strings.HasPrefix(c[0], "---") {
			continue
		}
		shown := named.FindAllStringSubmatch(c[2], -1)
		if len(shown) == 0 {
			found = append(found, fmt.Sprintf("%s: %q has no test", name, c[0]))
		}
		for _, test := range shown {
			if !tests[test[1]] {
				found = append(found, fmt.Sprintf("%s: %q names %s, and there is no such test", name, c[0], test[1]))
			}
		}
	}
	return found
}

func TestSystemsPageBites(t *testing.T) {
	tests := map[string]bool{"session:TestLazy": true}
	page := "| there | here | shown by |\n|---|---|---|\n" +
		"| good | x | `session:TestLazy` |\n| bare | x | |\n| gone | x | `session:TestLazy`, `session:TestGone` |\n"
	found := strings.Join(slices.Sorted(slices.Values(checkSystems("a.md", page, tests))), "\n")
	want := `a.md: "bare" has no test` + "\n" +
		`a.md: "gone" names session:TestGone, and there is no such test`
	if found != want {
		t.Errorf("found:\n%s\nwant:\n%s", found, want)
	}
}
