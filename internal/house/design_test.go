package house

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// designPage has a tree of the directories and a picture of the arrows between packages. TestDesign
// compares both with the table in arrows_test.go and with modules.txt, so the page is always up to
// date.
const designPage = "docs/design.md"

func TestDesign(t *testing.T) {
	files := readHouse(t) // outside of the project's tree, this skips the test
	modules, _ := parseModules(readText(t, "modules.txt"))
	page := readText(t, designPage)
	report(t, checkTree(page, arrows, modules, isDirectory))
	report(t, checkPicture(page, arrows, isDirectory))
	report(t, checkDesignNames(page, files))
}

var (
	smallName = regexp.MustCompile("^`([a-z]\\w*)`$")
	fileName  = regexp.MustCompile("^`([\\w/]+\\.(?:go|lua))`$")
)

// wordsInCode are names on the page in the form of code that are neither functions nor packages.
var wordsInCode = []string{"require", "internal", "usable"}

// checkDesignNames reports functions, files and packages that the page names, and that the tree
// does not have. The functions are those of the root and of redisstore.
func checkDesignNames(page string, files []*houseFile) []string {
	known := map[string]bool{}
	for _, f := range files {
		known[f.pkg()] = true
		for name := f.path; name != ""; _, name, _ = strings.Cut(name, "/") {
			known[name] = true
		}
		if f.ast == nil || f.test() || f.pkg() != "." && f.pkg() != "stores/redisstore" {
			continue
		}
		for _, decl := range f.ast.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok {
				known[decl.Name.Name] = true
			}
		}
	}
	var found []string
	for _, span := range spans.FindAllString(fenced.ReplaceAllString(page, ""), -1) {
		m := append(smallName.FindStringSubmatch(span), fileName.FindStringSubmatch(span)...)
		if m != nil && !known[m[1]] && !slices.Contains(wordsInCode, m[1]) {
			found = append(found, fmt.Sprintf("%s: the tree has no %s", designPage, m[1]))
		}
	}
	return found
}

func isDirectory(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// checkTree compares the tree of the page with the directories that exist, with the table of arrows
// and with the list of modules.
func checkTree(page string, rows []arrowRow, modules []string, exists func(string) bool) []string {
	var found []string
	say := func(format string, args ...any) {
		found = append(found, designPage+": the tree "+fmt.Sprintf(format, args...))
	}
	tree := parseTree(block(page, "├──"))
	for _, line := range tree {
		if !exists(line.dir) {
			say("has %s, which does not exist", line.dir)
		}
		if slices.Contains(modules, line.dir) && !line.module && line.dir != "." {
			say("does not call %s a module, and modules.txt lists it", line.dir)
		}
		if !slices.Contains(modules, line.dir) && line.module {
			say("calls %s a module, and modules.txt does not list it", line.dir)
		}
	}
	has := func(dir string) bool {
		return slices.ContainsFunc(tree, func(line treeLine) bool { return line.dir == dir })
	}
	for _, row := range rows {
		if exists(row.dir) && !has(row.dir) {
			say("lacks %s, which has a row in arrows_test.go", row.dir)
		}
	}
	for _, dir := range modules {
		if !has(dir) {
			say("lacks %s, which has a line in modules.txt", dir)
		}
	}
	return found
}

// block returns the first block of code in a page that contains the given text.
func block(page, mark string) []string {
	parts := strings.Split(page, "```")
	for i := 1; i < len(parts); i += 2 {
		if strings.Contains(parts[i], mark) {
			return strings.Split(parts[i], "\n")
		}
	}
	return nil
}

// A treeLine is a directory in the tree.
type treeLine struct {
	dir    string
	module bool
}

// parseTree reads lines such as
//
//	├── session/        web sessions
//	│   └── scsstore/   module: for users of scs
//
// A line may name several directories. The first line is the root.
func parseTree(lines []string) []treeLine {
	var tree []treeLine
	var above []string // the directories that contain the next line, by depth
	for _, line := range lines {
		_, rest, ok := strings.Cut(line, "── ")
		if !ok {
			if strings.HasPrefix(line, "padlock/") {
				tree = append(tree, treeLine{dir: "."})
			}
			continue
		}
		depth := len([]rune(line[:strings.Index(line, "── ")])) / 4
		above = above[:min(depth, len(above))]
		for _, name := range strings.Fields(rest) {
			dir, ok := strings.CutSuffix(name, "/")
			if !ok {
				break
			}
			dir = path.Join(path.Join(above...), dir)
			tree = append(tree, treeLine{dir: dir, module: strings.Contains(rest, " module: ")})
		}
		above = append(above, strings.TrimSuffix(strings.Fields(rest)[0], "/"))
	}
	return tree
}

// checkPicture compares the arrows of the page with the table, in both directions.
func checkPicture(page string, rows []arrowRow, exists func(string) bool) []string {
	drawn := parsePicture(block(page, " → "), exists)
	var found []string
	allowed := map[arrow]bool{}
	for _, row := range rows {
		for _, to := range row.code {
			if a := (arrow{row.dir, rowDir(to, rows)}); exists(row.dir) && a.from != a.to && (to == anything || exists(a.to)) {
				allowed[a] = true
			}
		}
	}
	for a := range allowed {
		if !drawn[a] {
			found = append(found, fmt.Sprintf("%s: the picture lacks %s → %s, which arrows_test.go allows", designPage, a.from, a.to))
		}
	}
	for a := range drawn {
		if !allowed[a] {
			found = append(found, fmt.Sprintf("%s: the picture has %s → %s, which arrows_test.go does not allow", designPage, a.from, a.to))
		}
	}
	return found
}

// An arrow means that the code of one package may import another one.
type arrow struct{ from, to string }

// rowDir returns the directory of the row for a package.
func rowDir(pkg string, rows []arrowRow) string {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(rows, func(r arrowRow) bool { return r.dir == dir }) {
			return dir
		}
	}
	return pkg
}

// parsePicture reads lines such as "a, b → c → d". "every store" stands for the stores that exist,
// "padlock" for the root, "anything" for the right to import all. "application" stands for no
// package.
func parsePicture(lines []string, exists func(string) bool) map[arrow]bool {
	drawn := map[arrow]bool{}
	for _, line := range lines {
		groups := strings.Split(line, " → ")
		for i := range len(groups) - 1 {
			for _, from := range packageNames(groups[i], exists) {
				for _, to := range packageNames(groups[i+1], exists) {
					drawn[arrow{from, to}] = true
				}
			}
		}
	}
	return drawn
}

func packageNames(group string, exists func(string) bool) []string {
	var names []string
	for name := range strings.SplitSeq(group, ",") {
		switch name = strings.TrimSpace(name); name {
		case "application":
		case "padlock":
			names = append(names, ".")
		case "anything":
			names = append(names, anything)
		case "every store":
			names = append(names, slices.DeleteFunc(slices.Clone(everyStore), func(s string) bool { return !exists(s) })...)
		default:
			names = append(names, name)
		}
	}
	return names
}

func TestDesignBite(t *testing.T) {
	page := "```\npadlock/      the face\n├── driver/   the contract\n├── memstore/ quorum/\n└── cmd/\n    └── padlock/  module: the command\n```\n" +
		"```\napplication → padlock → driver\nmemstore, quorum → driver\ncmd/padlock → anything\n```\n"
	rows := []arrowRow{
		{dir: ".", code: []string{"driver"}}, {dir: "driver"},
		{dir: "memstore", code: []string{"driver"}}, {dir: "quorum", code: []string{"driver"}},
		{dir: "cmd/padlock", code: []string{anything}}, {dir: "laterstore", code: []string{"driver"}},
	}
	modules := []string{".", "cmd/padlock"}
	exists := func(dir string) bool { return dir != "laterstore" }
	everything := func(string) bool { return true }
	expect(t, checkTree(page, rows, modules, exists), "")
	expect(t, checkTree(page, rows, modules, everything), "lacks laterstore, which has a row")
	expect(t, checkTree(page, rows, append(modules, "open"), exists), "lacks open, which has a line in modules.txt")
	expect(t, checkTree(page, rows, []string{"."}, exists), "calls cmd/padlock a module")
	expect(t, checkTree(strings.Replace(page, "module:", "", 1), rows, modules, exists), "does not call cmd/padlock a module")
	expect(t, checkTree(page, rows, modules, func(dir string) bool { return exists(dir) && dir != "quorum" }), "has quorum, which does not exist")
	expect(t, checkPicture(page, rows, exists), "")
	expect(t, checkPicture(page, rows, everything), "lacks laterstore → driver")
	expect(t, checkPicture(page, rows[1:], exists), "has . → driver, which arrows_test.go does not allow")
	expect(t, checkPicture(strings.Replace(page, ", quorum →", " →", 1), rows, exists), "lacks quorum → driver")

	f, err := parseHouse("line.go", ".", []byte("package p\nfunc lineUp() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(page string) []string { return checkDesignNames(page, []*houseFile{f}) }
	expect(t, names("`lineUp` in `line.go`, `Acquire`, `go test`, `a → b`"), "")
	expect(t, names("`standInLine`"), "the tree has no standInLine")
	expect(t, names("`lua/join.lua`"), "the tree has no lua/join.lua")
}

// TestShelves: the comment of each store says whether it is a core store or a guest, as the table of
// all stores on the page for users does. A store without a row there is a guest.
func TestShelves(t *testing.T) {
	all := readText(t, "docs/which-store.md")
	seen := map[bool]int{}
	for _, f := range readHouse(t) {
		if !strings.HasPrefix(f.pkg(), "stores/") || f.ast == nil || f.test() || f.ast.Doc == nil || strings.Contains(f.pkg(), "/drivers/") || strings.Contains(f.pkg(), "/internal/") {
			continue
		}
		row := regexp.MustCompile("(?m)^\\| \\[?`" + f.ast.Name.Name + "`.* \\| (core|guest) \\| ").FindStringSubmatch(all)
		isCore := row != nil && row[1] == "core"
		seen[isCore]++
		want := map[bool]string{true: "It is a core store:", false: "It is a guest:"}[isCore]
		if !strings.Contains(f.ast.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not say %q", f.path, want)
		}
	}
	if seen[true] != 7 || seen[false] < 8 {
		t.Errorf("%d core stores and %d guests", seen[true], seen[false])
	}
}
