package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

const (
	maxFuncLines = 60
	maxFileLines = 500
)

// checkSleep reports tests that wait for a fixed time. Such a test is slow if the time is long, and
// flaky if the time is short.
func checkSleep(f *houseFile) []string {
	if f.ast == nil || !f.test() {
		return nil
	}
	name := importName(f.ast, "time")
	var found []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				found = append(found, f.position(n.Pos())+": time.Sleep in a test: use testing/synctest for time, and for servers ask again until a deadline")
			}
		}
		return true
	})
	return found
}

// importName returns the name of a package in a file, or "" if the file does not import it.
func importName(f *ast.File, pkg string) string {
	for _, spec := range f.Imports {
		if spec.Path.Value == `"`+pkg+`"` {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return pkg
		}
	}
	return ""
}

// funcLengths returns the number of lines of each function body in a file. Function values at the
// top level count too; functions inside of others do not.
func funcLengths(f *houseFile) map[token.Pos]int {
	lengths := map[token.Pos]int{}
	for _, decl := range f.ast.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			body := funcBody(n)
			if body == nil {
				return true
			}
			lengths[n.Pos()] = max(0, f.line(body.Rbrace)-f.line(body.Lbrace)-1)
			return false // functions inside of this one are shorter
		})
	}
	return lengths
}

func funcBody(n ast.Node) *ast.BlockStmt {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Body
	case *ast.FuncLit:
		return n.Body
	}
	return nil
}

// checkFuncLength reports functions that do not fit on a screen.
func checkFuncLength(f *houseFile) []string {
	if f.ast == nil {
		return nil
	}
	var found []string
	for pos, lines := range funcLengths(f) {
		if lines > maxFuncLines {
			found = append(found, fmt.Sprintf("%s: a function of %d lines: at most %d, tests too, so that each can be read at one look; split it",
				f.position(pos), lines, maxFuncLines))
		}
	}
	return found
}

// codeFile matches the names of code files. Pages of prose may be longer.
var codeFile = regexp.MustCompile(`\.(go|sh|lua|sql|php)$|^\.ci/[^.]+$|Makefile$`)

// checkFileLength reports code files that are too long.
func checkFileLength(f *houseFile) []string {
	lines := strings.Count(string(f.src), "\n")
	if lines <= maxFileLines || !codeFile.MatchString(f.path) {
		return nil
	}
	return []string{fmt.Sprintf("%s: a file of %d lines: at most %d; cut it along its ideas", f.path, lines, maxFileLines)}
}

// unwanted matches text that no file of the tree may contain. The words are put together from parts
// here, because this file is part of the tree too.
var unwanted = regexp.MustCompile(strings.Join([]string{
	"/wor" + "k/",
	`https?://(proxy|registry|deb|security)` + `\.`,
	"proxy.gola" + `ng\.org`, "registry.npm" + `js\.org`, "deb.deb" + `ian\.org`,
}, "|"))

// checkMachine reports text that is true on one machine only: its paths, and the hosts of its
// packages.
func checkMachine(f *houseFile) []string {
	var found []string
	for i, line := range strings.Split(string(f.src), "\n") {
		if word := unwanted.FindString(line); word != "" {
			found = append(found, fmt.Sprintf("%s:%d: %q: the tree names no path of a machine and no host of packages; it has to work on any", f.path, i+1, word))
		}
	}
	return found
}

var tableDashes = regexp.MustCompile(`^\|[-:| ]+$`)

// checkTables reports rows of a page that stand behind an empty line, and so in no table.
func checkTables(f *houseFile) []string {
	if path.Ext(f.path) != ".md" {
		return nil
	}
	var found []string
	before, code := "", false
	lines := strings.Split(string(f.src), "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		row := !code && before == "" && strings.HasPrefix(line, "|")
		if row && (i+1 == len(lines) || !tableDashes.MatchString(lines[i+1])) {
			found = append(found, fmt.Sprintf("%s:%d: this row is in no table: remove the empty line before it", f.path, i+1))
		}
		before = line
	}
	return found
}
