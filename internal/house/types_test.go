package house

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A typeChecker knows the types of all packages of padlock. It takes padlock's packages from the
// parsed tree and those of the standard library from their source. The packages of other modules
// stay unknown, which does no harm: they do not call padlock's functions by name.
type typeChecker struct {
	fset    *token.FileSet
	std     types.Importer
	files   map[string][]*ast.File // by directory of the package, without tests
	checked map[string]*types.Package
	uses    map[string]map[*ast.Ident]types.Object
}

func newTypeChecker(t *testing.T, files []*houseFile) *typeChecker {
	t.Helper()
	build.Default.CgoEnabled = false // otherwise package net needs a C compiler
	c := &typeChecker{
		fset:    token.NewFileSet(),
		files:   map[string][]*ast.File{},
		checked: map[string]*types.Package{},
		uses:    map[string]map[*ast.Ident]types.Object{},
	}
	c.std = importer.ForCompiler(c.fset, "source", nil)
	for _, f := range files {
		if f.ast == nil || f.test() || !onLinux(f) {
			continue
		}
		parsed, err := parser.ParseFile(c.fset, f.path, f.src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.files[f.pkg()] = append(c.files[f.pkg()], parsed)
	}
	return c
}

// onLinux reports whether the file is compiled on Linux. With one system the result is the same on
// every machine.
func onLinux(f *houseFile) bool {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH = "linux", "amd64"
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.src)), nil }
	match, err := ctx.MatchFile(".", path.Base(f.path))
	return err == nil && match
}

// packages lists the directories of all packages.
func (c *typeChecker) packages() []string { return slices.Sorted(maps.Keys(c.files)) }

// Import makes the typeChecker a types.Importer.
func (c *typeChecker) Import(target string) (*types.Package, error) {
	if dirs := own([]string{target}); len(dirs) > 0 {
		return c.check(dirs[0]), nil
	}
	if first, _, _ := strings.Cut(target, "/"); strings.Contains(first, ".") {
		return nil, errors.New("a module of others")
	}
	return c.std.Import(target)
}

// check ignores errors, because the compiler reports those that matter.
func (c *typeChecker) check(dir string) *types.Package {
	if pkg := c.checked[dir]; pkg != nil {
		return pkg
	}
	c.uses[dir] = map[*ast.Ident]types.Object{}
	config := types.Config{Importer: c, Error: func(error) {}}
	pkg, _ := config.Check(path.Join(padlockPath, dir), c.fset, c.files[dir], &types.Info{Uses: c.uses[dir]})
	c.checked[dir] = pkg
	return pkg
}

// functionsUsed returns the functions and methods of the package at dir that the package itself
// uses, each with the place of the use. Methods of interfaces are left out.
func (c *typeChecker) functionsUsed(dir string) map[token.Pos]*types.Func {
	pkg := c.check(dir)
	used := map[token.Pos]*types.Func{}
	for id, object := range c.uses[dir] {
		fn, ok := object.(*types.Func)
		if !ok || fn.Pkg() != pkg {
			continue
		}
		if recv := fn.Signature().Recv(); recv == nil || !types.IsInterface(recv.Type()) {
			used[id.Pos()] = fn.Origin()
		}
	}
	return used
}
