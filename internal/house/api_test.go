package house

import (
	"cmp"
	"flag"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "TestAPI: write the golden files anew")

// apiDir holds a file for each package that is released.
const apiDir = "internal/house/testdata/api"

// TestAPI compares the output of `go doc -all` for each released package with its golden file, so
// that a review sees each change of the API. To accept a change, run
//
//	make golden
func TestAPI(t *testing.T) {
	packages := releasedPackages(readHouse(t), readText(t, "modules.txt"))
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Skip("another release of Go may print the same API in another way")
	}
	docs := goDocs(t, packages)
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

// goDocs runs go doc for each package.
func goDocs(t *testing.T, packages []string) map[string]string {
	docs := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, pkg := range packages {
		all.Go(func() {
			cmd := exec.Command("go", "doc", "-all", path.Join(padlockPath, pkg))
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOWORK=")
			text, err := cmd.Output()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%v: %v", cmd.Args, err)
			}
			docs[pkg] = string(text)
		})
	}
	all.Wait()
	return docs
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
}
