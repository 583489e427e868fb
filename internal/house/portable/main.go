// Command portable checks that packages and their tests compile for other systems, without
// compiling what they import: it reads all sources and checks the types, as the first half of the
// compiler does. go vet would compile the standard library, SQLite and the clients of all servers
// for each system, which takes minutes.
//
//	go run ./internal/house/portable -for windows,darwin,freebsd,linux/386 ./... ./cmd/padlock/...
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

func main() {
	systems := flag.String("for", "windows,darwin,freebsd,linux/386", "the systems, as GOOS or GOOS/GOARCH names them")
	flag.Parse()
	var all sync.WaitGroup
	failed := make([]error, len(strings.Split(*systems, ",")))
	for i, system := range strings.Split(*systems, ",") {
		all.Go(func() { failed[i] = check(".", system, flag.Args()) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A listed package is what go list says about a package. The package of a test and the packages
// that were compiled anew for it have names such as "p [p.test]".
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // from the import in the source to ImportPath, if they differ
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// check checks the packages of the patterns, seen from a directory, for a system. The error has a
// line for each thing that is wrong.
func check(dir, system string, patterns []string) error {
	system, arch, _ := strings.Cut(system, "/")
	arch = cmp.Or(arch, runtime.GOARCH)
	packages, err := list(dir, system, arch, patterns)
	if err != nil {
		return fmt.Errorf("%s: %w", system, err)
	}
	files := token.NewFileSet()
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	var wrong []error
	for _, p := range packages { // each stands behind what it imports
		if p.Error != nil {
			wrong = append(wrong, fmt.Errorf("%s: %s: %s", system, p.ImportPath, p.Error.Err))
			continue
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		checked, errs := p.check(arch, files, done)
		done[p.ImportPath] = checked
		for _, err := range errs {
			wrong = append(wrong, fmt.Errorf("%s: %w", system, err))
		}
	}
	return errors.Join(wrong...)
}

func list(dir, system, arch string, patterns []string) (packages []*listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}, patterns...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for read := json.NewDecoder(bytes.NewReader(text)); ; {
		p := &listed{}
		if err := read.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// check checks one package. The functions of other modules are not looked into.
func (p *listed) check(arch string, files *token.FileSet, done map[string]*types.Package) (checked *types.Package, wrong []error) {
	c := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if other, ok := p.ImportMap[path]; ok {
				path = other
			}
			if done[path] == nil {
				return nil, fmt.Errorf("%s is not among the packages of go list", path)
			}
			return done[path], nil
		}),
		Sizes:            types.SizesFor("gc", arch),
		IgnoreFuncBodies: p.Module == nil || !p.Module.Main,
		Error:            func(err error) { wrong = append(wrong, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, []error{err}
		}
		parsed = append(parsed, file)
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	checked, err := c.Check(path, files, parsed, nil)
	if err != nil && len(wrong) == 0 {
		wrong = []error{err}
	}
	return checked, wrong
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
