package house

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// topFolders are the folders at the top of the tree, as docs/design.md draws them. A new one is a
// decision: most packages belong into one of these.
var topFolders = []string{
	"adapters", "clients", "cmd", "compat", "docs", "driver", "drivertest", "election", "examples", "fence", "internal", "lab", "newest",
	"observe", "open", "padlocktest", "storekit", "stores", "web",
}

// ignoredFolders are made by a build, and git ignores them.
var ignoredFolders = []string{"bin", "dist", "soak-page"}

func TestTopFolders(t *testing.T) {
	readHouse(t) // outside of the project's tree, this skips the test
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(ignoredFolders, e.Name()) {
			there = append(there, e.Name())
		}
	}
	report(t, checkTop(there, topFolders))
}

// checkTop compares the folders at the top with the list.
func checkTop(there, listed []string) []string {
	var found []string
	for _, dir := range there {
		if !slices.Contains(listed, dir) {
			found = append(found, fmt.Sprintf("%s: a new folder at the top: put it into one of those that docs/design.md shows, or add it there and to topFolders with the decision", dir))
		}
	}
	for _, dir := range listed {
		if !slices.Contains(there, dir) {
			found = append(found, fmt.Sprintf("%s: topFolders lists it, and it does not exist", dir))
		}
	}
	return found
}

// A crossing is an import of an internal package of one module in the code of another module.
type crossing struct {
	from, to string // the directory of the module that imports, the imported package
}

// crossings are the exceptions to this rule: no product code of a released module imports an
// internal package of another module. Such a package would be a promise between versions that
// nobody sees. Tests, and modules that are never released, may import every internal package.
// Packages that stores share become public (storekit). The reason stands behind each exception.
var crossings = map[crossing]string{
	{"cmd/padlock", "internal/printable"}:         "the command is released with the root and has no API",
	{"cmd/padlock", "internal/remote"}:            "the command is released with the root and has no API",
	{"observe/padlockotel", "internal/group"}:     "until the groups of names are public",
	{"web", "internal/sqlpool"}:                   "until storekit has the pools of SQL",
	{"web", "internal/redisconn"}:                 "until storekit has the connections of Redis",
	{"stores/pgadvisory", "internal/login"}:       "until it is a part of storekit/storeurl",
	{"stores/redisstore", "internal/redisconn"}:   "until storekit has the connections of Redis",
	{"stores/sqlstore/drivers", "internal/login"}: "until it is a part of storekit/storeurl",
}

func TestInternalPackagesStayInTheirModule(t *testing.T) {
	files := readHouse(t)
	released := map[string]bool{}
	for line := range strings.Lines(readText(t, "modules.txt")) {
		if fields := strings.Fields(line); len(fields) == 2 && !strings.HasPrefix(line, "#") {
			released[fields[0]] = fields[1] == "yes"
		}
	}
	report(t, checkCrossings(files, released, crossings))
}

// checkCrossings reports imports that the rule forbids, and exceptions that nothing needs any more.
// released says for each module whether it is released.
func checkCrossings(files []*houseFile, released map[string]bool, exceptions map[crossing]string) []string {
	used := map[crossing]bool{}
	var found []string
	for _, f := range files {
		if f.ast == nil || f.test() || !released[f.module] {
			continue
		}
		for _, spec := range f.ast.Imports {
			for _, pkg := range ownModules([]string{strings.Trim(spec.Path.Value, "`\"")}) {
				c := crossing{f.module, pkg}
				switch {
				case !slices.Contains(strings.Split(pkg, "/"), "internal") || moduleAmong(pkg, released) == f.module:
				case exceptions[c] != "":
					used[c] = true
				default:
					found = append(found, fmt.Sprintf("%s imports %s, an internal package of another module: what modules share is public (storekit), or stays apart", f.position(spec.Pos()), pkg))
				}
			}
		}
	}
	for c := range exceptions {
		if !used[c] {
			found = append(found, fmt.Sprintf("internal/house/layout_test.go: no code of %s imports %s any more: drop the exception", c.from, c.to))
		}
	}
	return found
}

// moduleAmong returns the directory of the module that has the package.
func moduleAmong(pkg string, modules map[string]bool) string {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if _, ok := modules[dir]; ok {
			return dir
		}
	}
	return "."
}

func TestLayoutBites(t *testing.T) {
	expect(t, checkTop([]string{"cmd", "docs"}, []string{"cmd", "docs"}), "")
	expect(t, checkTop([]string{"cmd", "docs", "utils"}, []string{"cmd", "docs"}), "utils: a new folder at the top")
	expect(t, checkTop([]string{"cmd"}, []string{"cmd", "docs"}), "docs: topFolders lists it")

	released := map[string]bool{".": true, "stores/x": true, "lab": false}
	file := func(name, module string) []*houseFile {
		f, err := parseHouse(name, module, []byte("package p\n"+imports(padlockPath+"/internal/calls")))
		if err != nil {
			t.Fatal(err)
		}
		return []*houseFile{f}
	}
	except := map[crossing]string{{"stores/x", "internal/calls"}: "a reason"}
	expect(t, checkCrossings(file("stores/x/a.go", "stores/x"), released, nil), "imports internal/calls, an internal package of another module")
	expect(t, checkCrossings(file("stores/x/a.go", "stores/x"), released, except), "")
	expect(t, checkCrossings(file("stores/x/a_test.go", "stores/x"), released, nil), "")
	expect(t, checkCrossings(file("lab/a.go", "lab"), released, nil), "")
	expect(t, checkCrossings(file("stores/y/a.go", "."), released, nil), "")
	expect(t, checkCrossings(file("stores/y/a.go", "."), released, except), "no code of stores/x imports internal/calls any more")
}
