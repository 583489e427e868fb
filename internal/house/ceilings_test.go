package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ceilings has a row for each thing that tends to grow: its name, a tab, and how much is enough.
//
//	lines KIND       lines of code of product, tooling and tests, without comments and empty lines;
//	                 product has the Lua that servers run, and what it needs of internal
//	modules, top     modules, and entries of the first ls
//	names PACKAGE    exported functions, methods, types, constants and variables
//	clocks PACKAGE   places where its tests wait by the clock, or ask how long something took
//
// A change that needs more raises the row in the same commit, and its message says why. A row of
// clocks only sinks. `make golden` lowers the rows to what is there.
const ceilings = "internal/house/testdata/ceilings.tsv"

// TestCeilings compares the tree with ceilings.
func TestCeilings(t *testing.T) {
	files := readHouse(t)
	now := measured(files)
	modules := readText(t, "modules.txt")
	for line := range strings.Lines(modules) {
		if !strings.HasPrefix(line, "#") {
			now["modules"]++
		}
	}
	for _, pkg := range releasedPackages(files, modules) {
		now["names "+pkg] = countNames(files, pkg)
	}
	rows := readCeilings(readText(t, ceilings))
	if *update {
		lower(rows, now)
		if err := os.WriteFile(ceilings, []byte(writeCeilings(rows)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report(t, checkCeilings(rows, now))
}

// measured counts what the files of the tree show.
func measured(files []*houseFile) map[string]int {
	now, top, shipped := map[string]int{}, map[string]bool{}, shippedInternals(files)
	for _, f := range files {
		if first, _, _ := strings.Cut(f.path, "/"); !strings.HasPrefix(first, ".") {
			top[first] = true
		}
		if strings.HasSuffix(f.path, ".lua") && !strings.Contains(f.path, "testdata/") {
			now["lines product"] += luaLines(f.src)
		}
		if f.ast == nil {
			continue
		}
		kind := kindOf(f)
		if kind == "tooling" && shipped[f.pkg()] {
			kind = "product"
		}
		now["lines "+kind] += codeLines(f.src)
		if n := clocks(f); n > 0 {
			now["clocks "+f.pkg()] += n
		}
	}
	now["top"] = len(top)
	return now
}

// shippedInternals returns the packages under internal/ that product needs, directly or through each
// other.
func shippedInternals(files []*houseFile) map[string]bool {
	shipped := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, f := range files {
			if f.ast == nil || kindOf(f) != "product" && !(shipped[f.pkg()] && !f.test()) {
				continue
			}
			for _, spec := range f.ast.Imports {
				pkg, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), padlockPath+"/internal/")
				if ours && !shipped["internal/"+pkg] {
					shipped["internal/"+pkg], grown = true, true
				}
			}
		}
	}
	return shipped
}

// luaLines counts the lines that have more than comments.
func luaLines(src []byte) (n int) {
	for line := range bytes.Lines(src) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("--")) {
			n++
		}
	}
	return n
}

// kindOf says whether a file is product, tooling or tests.
func kindOf(f *houseFile) string {
	if f.test() {
		return "tests"
	}
	for _, dir := range []string{"internal/", "drivertest/", "lab/", "examples/", "web/session/sessiontest/"} {
		if strings.HasPrefix(f.path, dir) {
			return "tooling"
		}
	}
	return "product"
}

// codeLines counts the lines that have more than comments.
func codeLines(src []byte) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return len(lines)
		case tok == token.SEMICOLON && text == "\n":
			continue
		}
		first := file.Line(pos)
		for i := range strings.Count(text, "\n") + 1 {
			lines[first+i] = true
		}
	}
}

// countNames counts the names that users of a package see.
func countNames(files []*houseFile, pkg string) int {
	n := 0
	for _, f := range files {
		if f.ast == nil || f.test() || f.pkg() != pkg {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
					n++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					n += exportedIn(s)
				}
			}
		}
	}
	return n
}

func exportedIn(s ast.Spec) int {
	var names []*ast.Ident
	switch s := s.(type) {
	case *ast.TypeSpec:
		names = []*ast.Ident{s.Name}
	case *ast.ValueSpec:
		names = s.Names
	}
	n := 0
	for _, id := range names {
		if id.IsExported() {
			n++
		}
	}
	return n
}

// clocks counts the places of a test that depend on how fast the machine is: a wait by the clock,
// and a comparison with time.Since. In a file with bubbles of synctest, time costs nothing.
func clocks(f *houseFile) int {
	if !f.test() || importName(f.ast, "testing/synctest") != "" {
		return 0
	}
	name, n := importName(f.ast, "time"), 0
	of := func(e ast.Expr, funcs ...string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		id, ok := sel.X.(*ast.Ident)
		return ok && id.Name == name && slices.Contains(funcs, sel.Sel.Name)
	}
	ast.Inspect(f.ast, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.CallExpr:
			if of(x.Fun, "After", "NewTimer", "NewTicker", "Tick", "AfterFunc") {
				n++
			}
		case *ast.BinaryExpr:
			for _, side := range []ast.Expr{x.X, x.Y} {
				if call, ok := side.(*ast.CallExpr); ok && of(call.Fun, "Since") {
					n++
				}
			}
		}
		return true
	})
	return n
}

// checkCeilings reports what is over its ceiling, and clocks that went and whose row stayed.
func checkCeilings(rows, now map[string]int) []string {
	var found []string
	for _, what := range slices.Sorted(maps.Keys(now)) {
		n, most := now[what], rows[what]
		isClock := strings.HasPrefix(what, "clocks ")
		switch {
		case n > most && isClock:
			found = append(found, fmt.Sprintf("%s: %s: %d, and at most %d are allowed: wait for an event, or test in a bubble of testing/synctest", ceilings, what, n, most))
		case n > most:
			found = append(found, fmt.Sprintf("%s: %s: %d, and %d are enough: take something away, or raise the row and say why in the commit", ceilings, what, n, most))
		case n < most && isClock:
			found = append(found, fmt.Sprintf("%s: %s: only %d are left of %d: run make golden", ceilings, what, n, most))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(rows)) {
		if _, there := now[what]; !there {
			found = append(found, fmt.Sprintf("%s: %s: there is no such thing: run make golden", ceilings, what))
		}
	}
	return found
}

// lower sets each row to what is there if that is less, and removes rows of what is gone. What is
// new and no clock gets a row. The rows of lines have room, and stay.
func lower(rows, now map[string]int) {
	for what := range rows {
		if _, there := now[what]; !there {
			delete(rows, what)
		}
	}
	for what, n := range now {
		most, known := rows[what]
		if known && n < most && !strings.HasPrefix(what, "lines ") || !known && !strings.HasPrefix(what, "clocks ") {
			rows[what] = n
		}
	}
}

func readCeilings(text string) map[string]int {
	rows := map[string]int{}
	for line := range strings.Lines(text) {
		if what, n, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			rows[what], _ = strconv.Atoi(n)
		}
	}
	return rows
}

func writeCeilings(rows map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "%s\t%d\n", what, rows[what])
	}
	return b.String()
}

func TestCeilingsBite(t *testing.T) {
	rows := readCeilings("clocks a\t1\nlines product\t10\n")
	for _, c := range []struct {
		clocks, lines int
		want          string
	}{
		{1, 10, ""},
		{1, 9, ""},
		{1, 11, "lines product: 11, and 10 are enough"},
		{2, 10, "clocks a: 2, and at most 1 are allowed"},
		{0, 10, "clocks a: only 0 are left of 1"},
	} {
		expect(t, checkCeilings(rows, map[string]int{"clocks a": c.clocks, "lines product": c.lines}), c.want)
	}
	expect(t, checkCeilings(rows, map[string]int{"clocks a": 1}), "lines product: there is no such thing")
	slow := "package a\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\n// Slow is slow.\nfunc TestSlow(t *testing.T) {\n\tstart := time.Now()\n\t<-time.After(1)\n\tif time.Since(start) > 2 {\n\t\tt.Error()\n\t}\n}\n"
	f, err := parseHouse("a/x_test.go", ".", []byte(slow))
	bubble, err2 := parseHouse("a/y_test.go", ".", []byte(strings.Replace(slow, "\"testing\"", "\"testing\"\n\t_ \"testing/synctest\"", 1)))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	now := measured([]*houseFile{f})
	if now["clocks a"] != 2 || now["lines tests"] != 12 || clocks(bubble) != 0 || countNames([]*houseFile{f}, "a") != 0 {
		t.Errorf("%v, and %d clocks in a bubble", now, clocks(bubble))
	}
	lower(rows, map[string]int{"clocks a": 0, "clocks b": 3, "names a": 5})
	if text := writeCeilings(rows); text != "clocks a\t0\nnames a\t5\n" {
		t.Error(text)
	}
}
