package house

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A typeChecker knows the types of all packages of padlock. It takes padlock's packages from the
// parsed tree and those of the standard library from the go command's cache. The packages of other
// projects stay unknown. That does no harm, because they do not call padlock's functions by name.
type typeChecker struct {
	fset    *token.FileSet
	std     types.Importer
	files   map[string][]*ast.File // by directory of the package, without tests
	checked map[string]*types.Package
	uses    map[string]map[*ast.Ident]types.Object
}

func newTypeChecker(t *testing.T, files []*houseFile) *typeChecker {
	t.Helper()
	c := &typeChecker{
		fset:    token.NewFileSet(),
		files:   map[string][]*ast.File{},
		checked: map[string]*types.Package{},
		uses:    map[string]map[*ast.Ident]types.Object{},
	}
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
	standard := c.standard()
	c.std = importer.ForCompiler(c.fset, "gc", exportData(t, standard))
	for _, pkg := range standard {
		if _, err := c.std.Import(pkg); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// standard lists the packages of the standard library that the files import.
func (c *typeChecker) standard() []string {
	seen := map[string]bool{}
	for _, files := range c.files {
		for _, f := range files {
			for _, spec := range f.Imports {
				target := strings.Trim(spec.Path.Value, "`\"")
				if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") && target != "unsafe" {
					seen[target] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// exportData returns a function that opens the compiled form of a package of the standard library.
// The go command takes that form from its cache, or compiles the package.
func exportData(t *testing.T, packages []string) func(string) (io.ReadCloser, error) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, packages...)...)
	cmd.Env = os.Environ()
	if runtime.GOOS != "linux" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	}
	list, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[pkg] = file
	}
	return func(pkg string) (io.ReadCloser, error) {
		if files[pkg] == "" {
			return nil, fmt.Errorf("no export data of %s", pkg)
		}
		return os.Open(files[pkg])
	}
}

// onLinux reports whether the file is compiled on Linux. The tests always judge the code for Linux,
// so the result is the same on every machine.
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
	if dirs := ownModules([]string{target}); len(dirs) > 0 {
		return c.check(dirs[0]), nil
	}
	if first, _, _ := strings.Cut(target, "/"); strings.Contains(first, ".") {
		return nil, errors.New("a module of others")
	}
	return c.std.Import(target)
}

// check type-checks the package at dir. It ignores errors, because the compiler reports those that
// matter.
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
