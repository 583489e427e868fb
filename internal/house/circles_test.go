package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A circle is a group of files in one package in which each file calls functions of every other
// file, directly or through other files of the group. No file of a circle can be read alone. So the
// rule is that the files of a package have an order: each file calls only files that are below it.
//
// An allowedCircle is an exception.
type allowedCircle struct {
	pkg    string
	most   int // the number of files in the circle
	reason string
}

// allowedCircles is empty at present. A row names the package, the number of files in the circle
// and the reason why it cannot be cut.
var allowedCircles = []allowedCircle{}

// TestCircles checks every package of the tree. To work on one package, run
//
//	go test ./internal/house -run 'TestCircles/redisstore' -v
//
// The output lists the calls inside each circle. The list begins with the pair of files whose calls
// use the fewest functions, because these calls are the easiest to remove.
func TestCircles(t *testing.T) {
	checker := newTypeChecker(t, readHouse(t))
	for _, pkg := range checker.packages() {
		t.Run(pkg, func(t *testing.T) {
			calls := checker.collectCalls(pkg)
			circles := calls.circles()
			for _, circle := range circles {
				t.Log(calls.describe(circle))
			}
			report(t, judgeCircles(pkg, circles, allowedCircles))
		})
	}
}

// judgeCircles compares the circles of a package with the exceptions for it.
func judgeCircles(pkg string, circles [][]string, allowed []allowedCircle) []string {
	var rows []allowedCircle
	var found []string
	for _, a := range allowed {
		if a.pkg == pkg {
			rows = append(rows, a)
		}
		if a.pkg == pkg && a.reason == "" {
			found = append(found, pkg+": circles_test.go allows a circle without a reason")
		}
	}
	slices.SortFunc(rows, func(a, b allowedCircle) int { return b.most - a.most })
	slices.SortFunc(circles, func(a, b []string) int { return len(b) - len(a) })
	for i, circle := range circles {
		if i >= len(rows) || len(circle) > rows[i].most {
			found = append(found, fmt.Sprintf("%s: %d files call each other in a circle: %s; move functions until each file calls only files below it",
				pkg, len(circle), strings.Join(circle, ", ")))
		} else if len(circle) < rows[i].most {
			found = append(found, fmt.Sprintf("%s: a circle has %d files, and circles_test.go allows %d: lower the number", pkg, len(circle), rows[i].most))
		}
	}
	for i := len(circles); i < len(rows); i++ {
		found = append(found, fmt.Sprintf("%s: circles_test.go allows a circle of %d files that is gone: drop its row", pkg, rows[i].most))
	}
	return found
}

// calls says which functions of one file another file of the package calls. The first key is the
// calling file, the second is the called file.
type calls map[string]map[string][]string

func (c calls) add(from, to, function string) {
	if c[from] == nil {
		c[from] = map[string][]string{}
	}
	if !slices.Contains(c[from][to], function) {
		c[from][to] = append(c[from][to], function)
	}
}

// reachable returns the files that the given file calls, directly or through other files.
func (c calls) reachable(from string) map[string]bool {
	reached := map[string]bool{}
	todo := []string{from}
	for len(todo) > 0 {
		file := todo[0]
		todo = todo[1:]
		for to := range c[file] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached
}

// circles returns the groups of files that reach each other.
func (c calls) circles() [][]string {
	reach := map[string]map[string]bool{}
	for from := range c {
		reach[from] = c.reachable(from)
	}
	var circles [][]string
	done := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(c)) {
		if done[file] || !reach[file][file] {
			continue
		}
		var circle []string
		for _, other := range slices.Sorted(maps.Keys(c)) {
			if reach[file][other] && reach[other][file] {
				circle = append(circle, other)
				done[other] = true
			}
		}
		circles = append(circles, circle)
	}
	return circles
}

// describe lists the calls between the files of a circle.
func (c calls) describe(circle []string) string {
	type edge struct {
		from, to  string
		functions []string
	}
	var edges []edge
	for _, from := range circle {
		for _, to := range circle {
			if functions := c[from][to]; len(functions) > 0 {
				slices.Sort(functions)
				edges = append(edges, edge{from, to, functions})
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return len(a.functions) - len(b.functions) })
	var b strings.Builder
	fmt.Fprintf(&b, "a circle of %d files: %s\n", len(circle), strings.Join(circle, ", "))
	for _, e := range edges {
		fmt.Fprintf(&b, "  %s → %s: %s\n", e.from, e.to, strings.Join(e.functions, ", "))
	}
	return b.String()
}

func TestCirclesBite(t *testing.T) {
	sources := map[string]string{
		"memstore/a.go": "type t struct{}\nfunc (t) up() { down() }",
		"memstore/b.go": "func down() { middle() }",
		"memstore/c.go": "func middle() { t{}.up() }",
		"memstore/d.go": "func ground() {}\nfunc use() { middle() }",
	}
	var files []*houseFile
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, err := parseHouse(name, ".", []byte("package memstore\n"+sources[name]))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	circles := newTypeChecker(t, files).collectCalls("memstore").circles()
	expect(t, judgeCircles("memstore", circles, nil), "3 files call each other in a circle: a.go, b.go, c.go")
}

// collectCalls type-checks the package at dir and collects the calls between its files. A function
// that is passed as a value counts as called. A call of an interface's method does not count,
// because the source does not show which code runs.
func (c *typeChecker) collectCalls(dir string) calls {
	found := calls{}
	for id, fn := range c.functionsUsed(dir) {
		from := path.Base(c.fset.Position(id).Filename)
		if to := path.Base(c.fset.Position(fn.Pos()).Filename); to != from {
			found.add(from, to, fn.Name())
		}
	}
	return found
}
