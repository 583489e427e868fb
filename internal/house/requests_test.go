package house

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestRequestsAreNotPrinted: a driver.Request and a driver.Extension have their tokens as texts. So
// no package gives one, or a value that holds one, to a function that takes any value, or to one of
// another project: only such a function can print it.
func TestRequestsAreNotPrinted(t *testing.T) {
	checker := newTypeChecker(t, readHouse(t))
	checker.types = map[ast.Expr]types.TypeAndValue{}
	for _, pkg := range checker.packages() {
		if !strings.HasPrefix(pkg, "drivertest") { // it makes its own tokens, and a failed test prints them
			report(t, checker.printedRequests(pkg))
		}
	}
	if len(checker.types) < 10000 {
		t.Errorf("%d expressions: the test is worth nothing", len(checker.types))
	}
}

func TestRequestsAreNotPrintedBite(t *testing.T) {
	const imported = "package memstore\nimport (\n\"fmt\"\n\"" + padlockPath + "/driver\"\n)\n"
	for src, want := range map[string]string{
		"func f(r driver.Request) { fmt.Println(r) }":                            "gives a driver.Request to fmt.Println",
		"func f(r *driver.Request) error { return fmt.Errorf(\"%v\", 1, r) }":    "gives a *driver.Request to fmt.Errorf",
		"func f(r []driver.Extension) { panic(r) }":                              "gives a []driver.Extension to panic",
		"type h struct{ r *driver.Request }\nfunc f(x h) { fmt.Print(\"\", x) }": "gives a memstore.h to fmt.Print",
		"func f(r driver.Request) { _ = any(r) }":                                "gives a driver.Request to any",
		"func f(r driver.Request) { fmt.Println(r.Name); f(r) }":                 "",
	} {
		contract, err := parseHouse("driver/driver.go", ".", []byte("package driver\ntype Request struct{ Name, Token string }\ntype Extension struct{ Token string }"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := parseHouse("memstore/a.go", ".", []byte(imported+src))
		if err != nil {
			t.Fatal(err)
		}
		checker := newTypeChecker(t, []*houseFile{contract, file})
		checker.types = map[ast.Expr]types.TypeAndValue{}
		expect(t, checker.printedRequests("memstore"), want)
	}
}

// printedRequests lists the calls in the package at dir that could print a request.
func (c *typeChecker) printedRequests(dir string) (found []string) {
	c.check(dir)
	for _, f := range c.files[dir] {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || slices.Contains([]string{"runtime.KeepAlive", "context.WithValue"}, types.ExprString(call.Fun)) { // they print nothing
				return true
			}
			for i, arg := range call.Args {
				if given := c.types[arg].Type; holdsRequest(given, nil) && takesAny(c.types[call.Fun].Type, i) {
					short := func(p *types.Package) string { return path.Base(p.Path()) }
					found = append(found, fmt.Sprintf("%s: gives a %s to %s, which may print its token", c.fset.Position(arg.Pos()), types.TypeString(given, short), types.ExprString(call.Fun)))
				}
			}
			return true
		})
	}
	return found
}

// holdsRequest reports whether a printer that gets a value of type t finds a request in it.
func holdsRequest(t types.Type, above []types.Type) bool {
	if t == nil || slices.ContainsFunc(above, func(a types.Type) bool { return types.Identical(a, t) }) {
		return false
	}
	above = append(above, t)
	if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == padlockPath+"/driver" {
		return n.Obj().Name() == "Request" || n.Obj().Name() == "Extension"
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if holdsRequest(f.Type(), above) {
				return true
			}
		}
	case *types.Map:
		return holdsRequest(u.Key(), above) || holdsRequest(u.Elem(), above)
	case interface{ Elem() types.Type }: // a pointer, a slice, an array or a channel
		return holdsRequest(u.Elem(), above)
	}
	return false
}

// takesAny reports whether parameter i of a function of type t takes any value. The functions of
// other projects, whose types are unknown, count as such.
func takesAny(t types.Type, i int) bool {
	if t == nil || t == types.Typ[types.Invalid] {
		return true
	}
	f, ok := t.Underlying().(*types.Signature)
	if !ok {
		return isAny(t) // a conversion
	}
	last := f.Params().Len() - 1
	switch {
	case f.Variadic() && i >= last:
		return isAny(f.Params().At(last).Type().(*types.Slice).Elem())
	case i > last:
		return true
	}
	return isAny(f.Params().At(i).Type())
}

func isAny(t types.Type) bool {
	if _, ok := t.(*types.TypeParam); ok {
		return false // such a function is of padlock, of slices or of maps, and has rows of its own
	}
	u, ok := t.Underlying().(*types.Interface)
	return ok && u.NumMethods() == 0
}
