package house

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// padlockPath is the import path of the root module. The import paths of padlock's other modules
// begin with it.
const padlockPath = "github.com/padlock-go/padlock"

// A houseFile is a file of the tree. Go files are parsed.
type houseFile struct {
	path   string // relative to the root of the tree, with slashes
	module string // the directory of its module, "." for the root module
	src    []byte
	fset   *token.FileSet
	ast    *ast.File // nil unless the file is Go code that is compiled
}

// pkg returns the directory of the file's package.
func (f *houseFile) pkg() string { return path.Dir(f.path) }

// test reports whether the file is compiled for tests only.
func (f *houseFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// position returns the place of a node as "path:line". Each message about a violation begins with
// it.
func (f *houseFile) position(pos token.Pos) string {
	return f.path + ":" + itoa(f.line(pos))
}

func (f *houseFile) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// parseHouse makes a houseFile from the text of the file.
func parseHouse(name, module string, src []byte) (*houseFile, error) {
	f := &houseFile{path: name, module: module, src: src, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return f, nil
	}
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// readHouse reads the whole tree with all modules.
func readHouse(t *testing.T) []*houseFile {
	t.Helper()
	toRoot()
	if _, err := os.Stat("modules.txt"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this is not the tree of the project, the rules of its house do not apply")
	}
	files, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readTree reads the tree only once, because many tests need it and no test changes the files.
var readTree = sync.OnceValues(func() (files []*houseFile, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipForeign(d.Name())
		}
		f, err := readHouseFile(name, d)
		if f != nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
})

// skipForeign leaves out directories that are not part of the project.
func skipForeign(dir string) error {
	switch dir {
	case ".git", ".idea", ".vscode", "bin", "dist", "node_modules", "soak-page":
		return filepath.SkipDir
	}
	return nil
}

// readHouseFile returns nil if the file is not text.
func readHouseFile(name string, d fs.DirEntry) (*houseFile, error) {
	if !d.Type().IsRegular() || strings.HasSuffix(name, ".test") {
		return nil, nil
	}
	src, err := os.ReadFile(name)
	if err != nil || bytes.IndexByte(src, 0) >= 0 {
		return nil, err
	}
	return parseHouse(filepath.ToSlash(name), moduleOf(filepath.ToSlash(name)), src)
}

// moduleOf returns the directory of the module that a file belongs to. This is the nearest
// directory above the file with a go.mod.
func moduleOf(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}
