package drivertest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// uncheckable are the words of the contract that no case is about.
var uncheckable = map[string]string{
	"Guarantees.SurvivesFailover": "a case would have to run a replica; stores test it themselves",
	"Guarantees.SafeEviction":     "a case would have to fill the server's memory; stores test it themselves",
	"Finding.Advice":              "prose, and empty if there is none",
	"Hold.Holder":                 "embedded: see Holder",
	"Request.Validate":            "a method of package driver, which tests it",
	"HeldError.RetryAfter":        "a method of package driver, which tests it",
	"RecordKeep":                  "a case would have to wait for a year; stores test it themselves",
	"Unknown":                     "a constant that Status may use",
	"DefaultMaxTTL":               "what a store may choose as its Guarantees.MaxTTL, which limits/ttl is about",
	"FenceSession":                "such fences obey all rules but those of FenceDurable",
	"ErrAlreadyHeld":              "of locks in a transaction, which stores with transactions test",
}

// unrelated are files of packages driver and fast that say nothing about stores.
var unrelated = regexp.MustCompile(`^(as|clock|token)\b|_test\.go$`)

// TestEveryWordOfTheContractHasACase lists the methods, fields, errors and limits that packages
// driver and fast export, and requires a case that uses each. So a new optional interface needs a case.
func TestEveryWordOfTheContractHasACase(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, f := range parsed(t, "*.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				used[n.Sel.Name] = true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					used[key.Name] = true
				}
			}
			return true
		})
	}
	words := contractWords(t)
	for _, w := range words {
		if !used[w[strings.LastIndexByte(w, '.')+1:]] && uncheckable[w] == "" {
			t.Errorf("no case uses %s", w)
		}
	}
	for w := range uncheckable {
		if !slices.Contains(words, w) {
			t.Errorf("%s is said to be uncheckable, and does not exist", w)
		}
	}
}

func parsed(t *testing.T, pattern string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if unrelated.MatchString(filepath.Base(name)) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func contractWords(t *testing.T) (words []string) {
	t.Helper()
	for dir, least := range map[string]int{"../driver": 70, "../driver/fast": 15} {
		before := len(words)
		for _, f := range parsed(t, dir+"/*.go") {
			words = append(words, wordsOf(f)...)
		}
		if n := len(words) - before; n < least {
			t.Fatalf("only %d words were found in %s", n, dir)
		}
	}
	return words
}

func wordsOf(f *ast.File) (words []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			words = append(words, declared(d)...)
		case *ast.FuncDecl:
			words = append(words, method(d)...)
		}
	}
	return words
}

// declared lists constants, variables, fields and methods of interfaces.
func declared(g *ast.GenDecl) (words []string) {
	for _, s := range g.Specs {
		switch s := s.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				words = append(words, n.Name)
			}
		case *ast.TypeSpec:
			for _, n := range members(s.Type) {
				words = append(words, s.Name.Name+"."+n)
			}
		}
	}
	return slices.DeleteFunc(words, func(w string) bool { return !ast.IsExported(w) || isPromise(w) })
}

// method returns the name of d if d is a method of an error. Stores call the other functions, so
// these need no case.
func method(d *ast.FuncDecl) []string {
	if d.Recv == nil {
		return nil
	}
	if p, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok && ast.IsExported(d.Name.Name) {
		return []string{p.X.(*ast.Ident).Name + "." + d.Name.Name}
	}
	return nil
}

func isPromise(w string) bool { return w == "PromiseNo" || w == "PromisePartly" || w == "PromiseYes" }

func members(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			names = append(names, id.Name)
		}
	}
	return names
}

// TestEveryCaseCanFail requires a bug for each case.
func TestEveryCaseCanFail(t *testing.T) {
	t.Parallel()
	found := map[string]bool{"file/keeps": true} // by TestFileCasesCanFail
	for _, list := range broken {
		must, may := expected(list)
		for _, name := range append(must, may...) {
			found[name] = true
		}
	}
	for i := range table {
		if !found[table[i].name] {
			t.Errorf("no bug makes %s fail", table[i].name)
		}
		delete(found, table[i].name)
	}
	for name := range found {
		t.Errorf("a bug makes %s fail, which does not exist", name)
	}
}

// TestEveryCaseReadsWell requires a name, a rule in whole sentences, and one way to check it.
func TestEveryCaseReadsWell(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*/[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for i := range table {
		k := &table[i]
		if !name.MatchString(k.name) || seen[k.name] {
			t.Errorf("%q is no name for a case, or is there twice", k.name)
		}
		if seen[k.name] = true; len(k.clause) < 20 || !strings.HasSuffix(k.clause, ".") {
			t.Errorf("%s: the clause is no sentence: %q", k.name, k.clause)
		}
		if (k.f == nil) == (k.watch == nil) {
			t.Errorf("%s: want either f or watch", k.name)
		}
	}
}
