package house

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "TestAPI: write the golden files anew")

// apiDir holds a file for each package that is released.
const apiDir = "internal/house/testdata/api"

// TestAPI compares the documented API of each released package with its golden file, so that a
// review sees each change of the API. To accept a change, run
//
//	make golden
func TestAPI(t *testing.T) {
	files := readHouse(t)
	packages := releasedPackages(files, readText(t, "modules.txt"))
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Skip("another release of Go may print the same API in another way")
	}
	docs := map[string]string{}
	for _, pkg := range packages {
		docs[pkg] = goDoc(t, files, pkg)
	}
	if *update {
		writeGolden(t, docs)
	}
	for pkg, text := range docs {
		golden, err := os.ReadFile(path.Join(apiDir, goldenFile(pkg)))
		if err != nil {
			t.Errorf("%v: a new package gets its file by make golden", err)
			continue
		}
		if line, differs := firstDifference(string(golden), text); differs {
			t.Errorf("the API of %s differs from %s/%s at line %d: if that is wanted, run make golden and commit the file", pkg, apiDir, goldenFile(pkg), line)
		}
	}
	entries, err := os.ReadDir(apiDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(packages, func(pkg string) bool { return goldenFile(pkg) == e.Name() }) {
			t.Errorf("%s/%s: its package is gone: run make golden", apiDir, e.Name())
		}
	}
}

// releasedPackages lists the packages of released modules that a user can import, and the internal
// packages that betweenModules returns.
func releasedPackages(files []*houseFile, modules string) []string {
	released := map[string]bool{}
	for line := range strings.Lines(modules) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == "yes" {
			released[fields[0]] = true
		}
	}
	library := slices.DeleteFunc(slices.Clone(files), func(f *houseFile) bool {
		return f.ast == nil || f.test() || !released[f.module] || f.ast.Name.Name == "main"
	})
	packages := betweenModules(library)
	for _, f := range library {
		inside := strings.Split(f.pkg(), "/")
		if !slices.Contains(inside, "internal") && inside[0] != "examples" {
			packages = append(packages, f.pkg())
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// betweenModules returns the internal packages of the root module that other modules import. A
// program may combine modules of different versions, so the API of these packages must not break
// either. Commands do not count, because the go.mod of a command fixes the versions.
func betweenModules(library []*houseFile) (packages []string) {
	for _, f := range library {
		for _, spec := range f.ast.Imports {
			pkg, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), padlockPath+"/")
			if ours && f.module != "." && !strings.HasPrefix(f.module, "cmd/") && strings.HasPrefix(pkg, "internal/") {
				packages = append(packages, pkg)
			}
		}
	}
	return packages
}

// goDoc prints the API of a package as `go doc -all` does, without headlines and much faster.
func goDoc(t *testing.T, files []*houseFile, pkg string) string {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		if f.ast != nil && !f.test() && f.pkg() == pkg && onLinux(f) {
			again, err := parser.ParseFile(fset, f.path, f.src, parser.ParseComments) // package doc changes it
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, again)
		}
	}
	api, err := doc.NewFromFiles(fset, parsed, path.Join(padlockPath, pkg))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	comment := func(of, indent string) {
		printer := api.Printer()
		printer.TextPrefix, printer.TextCodePrefix = indent, indent+"    "
		text.Write(append(printer.Text(api.Parser().Parse(of)), '\n'))
	}
	decl := func(node ast.Decl, doc string) {
		if err := format.Node(&text, fset, node); err != nil {
			t.Fatal(err)
		}
		text.WriteByte('\n')
		comment(doc, "    ")
	}
	all := func(values []*doc.Value, funcs []*doc.Func) {
		for _, v := range values {
			decl(v.Decl, v.Doc)
		}
		for _, f := range funcs {
			decl(f.Decl, f.Doc)
		}
	}
	fmt.Fprintf(&text, "package %s // import %q\n\n", api.Name, api.ImportPath)
	comment(api.Doc, "")
	all(slices.Concat(api.Consts, api.Vars), api.Funcs)
	for _, typ := range api.Types {
		decl(typ.Decl, typ.Doc)
		all(slices.Concat(typ.Consts, typ.Vars), slices.Concat(typ.Funcs, typ.Methods))
	}
	words := strings.NewReplacer("// contains filtered or unexported fields", "// Has unexported fields.", "// contains filtered or unexported methods", "// Has unexported methods.")
	return words.Replace(text.String())
}

func goldenFile(pkg string) string {
	if pkg == "." {
		return "padlock.txt"
	}
	return strings.ReplaceAll(pkg, "/", "_") + ".txt"
}

func writeGolden(t *testing.T, docs map[string]string) {
	if err := os.RemoveAll(apiDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(apiDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for pkg, text := range docs {
		if err := os.WriteFile(filepath.Join(apiDir, goldenFile(pkg)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// firstDifference returns the number of the first line in which two texts differ. Lines count from
// 1.
func firstDifference(a, b string) (line int, differs bool) {
	if a == b {
		return 0, false
	}
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return i + 1, true
		}
	}
	return min(len(as), len(bs)) + 1, true
}

func TestAPIBite(t *testing.T) {
	for _, b := range []struct {
		golden, now string
		line        int
	}{
		{"func A()\n", "func A()\n", 0},
		{"func A()\nfunc B()\n", "func A()\nfunc B(int)\n", 2},
		{"func A()\n", "func A()\nfunc B()\n", 2},
		{"func A()", "func A()\nfunc B()", 2},
	} {
		if line, differs := firstDifference(b.golden, b.now); line != b.line || differs != (b.line > 0) {
			t.Errorf("%q and %q differ in line %d, want %d", b.golden, b.now, line, b.line)
		}
	}
	var files []*houseFile
	code := func(imported string) string { return "package x\nimport _ \"" + padlockPath + "/" + imported + "\"\n" }
	for name, text := range map[string]string{
		"x.go": code("internal/own"), "a/internal/x.go": "package x", "open/x.go": code("internal/frozen"), "shop/x.go": code("internal/shop"),
		"a/x_test.go": "package x", "open/x_test.go": code("internal/test"), "cmd/padlock/b/x.go": code("internal/command"),
	} {
		module := map[string]string{"open": "open", "shop": "shop", "cmd": "cmd/padlock"}[strings.Split(name, "/")[0]]
		f, err := parseHouse(name, cmp.Or(module, "."), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	want := []string{".", "cmd/padlock/b", "internal/frozen", "open"}
	if got := releasedPackages(files, ". yes\nopen yes\ncmd/padlock yes\nshop never\n"); !slices.Equal(got, want) {
		t.Errorf("released are %v, want %v", got, want)
	}
	f, err := parseHouse("open/x.go", ".", []byte("package x\n\nconst A = 1\n\nvar B int\n\nfunc C(c int) {}\n\ntype D struct {\n\tE int\n\tf int\n}\n\nfunc (d D) G() {}\n\nfunc hidden() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(goDoc(t, []*houseFile{f}, "open")), " ")
	if seen := "const A = 1 var B int func C(c int) type D struct { E int // Has unexported fields. } func (d D) G()"; !strings.HasSuffix(text, seen) {
		t.Errorf("%q does not end with %q", text, seen)
	}
}
