package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOptions checks the comment of each option of a public package. An option is a function that
// returns a type whose name ends in Option, or a field of an exported struct with the name Config
// or Options, or of a struct that is an option itself. A reader of `go doc` must find the default,
// the range with its unit, and the error.
//
// The check looks for a few words, and does not judge whether they are true: tests of the packages
// pass the values outside of the ranges.
func TestOptions(t *testing.T) {
	options := 0
	for _, f := range readHouse(t) {
		if !public(f) {
			continue
		}
		found, n := checkOptions(f)
		report(t, found)
		options += n
	}
	t.Logf("%d options", options)
	if options < 100 {
		t.Errorf("only %d options were found: does this test still know what an option is?", options)
	}
}

// public reports whether a file is code of a package that users import.
func public(f *houseFile) bool {
	if f.ast == nil || f.test() || f.ast.Name.Name == "main" {
		return false
	}
	dirs := strings.Split(f.path, "/")
	return !slices.Contains(dirs, "internal") && !slices.Contains([]string{"lab", "cmd", "examples"}, dirs[0])
}

// checkOptions returns the violations in a file and the number of its options.
func checkOptions(f *houseFile) (found []string, options int) {
	complain := func(pos token.Pos, name string, lacks []string) {
		options++
		for _, l := range lacks {
			found = append(found, fmt.Sprintf("%s: the comment of option %s %s", f.position(pos), name, l))
		}
	}
	settings := settingTypes(f)
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if isOption(decl) {
				complain(decl.Pos(), decl.Name.Name, optionLacks(decl))
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok || !settings[typ.Name.Name] {
					continue
				}
				if fields, ok := typ.Type.(*ast.StructType); ok {
					complain(typ.Pos(), typ.Name.Name, configLacks(decl.Doc.Text()+typ.Doc.Text()))
					checkFields(decl.Doc.Text()+typ.Doc.Text(), fields, complain)
				}
			}
		}
	}
	return found, options
}

// settingTypes returns the names of the structs whose fields are options: Config, Options, the
// types of their fields, and the structs that are options themselves.
func settingTypes(f *houseFile) map[string]bool {
	names := map[string]bool{"Config": true, "Options": true}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil && strings.HasPrefix(n.Name.Name, "apply") {
				if id, ok := n.Recv.List[0].Type.(*ast.Ident); ok && !strings.HasSuffix(id.Name, "Option") {
					names[id.Name] = id.IsExported()
				}
			}
			return false
		case *ast.TypeSpec:
			if fields, ok := n.Type.(*ast.StructType); ok && (n.Name.Name == "Config" || n.Name.Name == "Options") {
				for _, field := range fields.Fields.List {
					if id, ok := field.Type.(*ast.Ident); ok && id.IsExported() {
						names[id.Name] = true
					}
				}
			}
		}
		return true
	})
	return names
}

// isOption reports whether a function returns an option, and nothing else.
func isOption(decl *ast.FuncDecl) bool {
	if decl.Recv != nil || !decl.Name.IsExported() || decl.Type.Results.NumFields() != 1 {
		return false
	}
	typ := decl.Type.Results.List[0].Type
	if sel, ok := typ.(*ast.SelectorExpr); ok {
		typ = sel.Sel
	}
	name, ok := typ.(*ast.Ident)
	return ok && strings.HasSuffix(name.Name, "Option") && name.IsExported()
}

var (
	saysRange = regexp.MustCompile(`at least|at most|\bfrom \S+( \S+)? to\b|\bto\b .*\b(allowed|days|h|min)\b|or (more|less)\b|any (number|duration|text)|above 0`)
	saysError = regexp.MustCompile(`\bErr[A-Z]\w*|\berrors?\b|\bpanics?\b|no effect|does nothing|\bdefault (stays|applies)|counts as|an error|means\b`)
	saysTime  = regexp.MustCompile(`\d(\.\d+)? ?(ms|s|min|h|seconds?|minutes?|hours?|days?)\b|\ban? (millisecond|second|minute|hour|day)\b|\bDefault[A-Z]\w*|\bM(in|ax)TTL\b|for ever|no limit`)
	saysUnit  = regexp.MustCompile(`how (many|much|often)|\b(number|bytes?|fence|share|factor|times|names|permits?)\b`)
)

// saysDefault matches a comment that says what happens if the option is not given.
func saysDefault(name, comment string) bool {
	return regexp.MustCompile(`\b[Dd]efaults?\b|\b[Ww]ithout (it|this option|` + name + `)\b|\b[Rr]equired\b`).MatchString(comment)
}

// optionLacks returns what is missing in the comment of an option.
func optionLacks(decl *ast.FuncDecl) (lacks []string) {
	comment := oneLine(decl.Doc.Text())
	if !saysDefault(decl.Name.Name, comment) {
		lacks = append(lacks, `does not say what happens without it: write "The default is …", "Without it, …" or "It is required"`)
	}
	for _, param := range decl.Type.Params.List {
		lacks = append(lacks, typeLacks(param.Type, comment)...)
	}
	return lacks
}

// typeLacks returns what is missing in the comment of an option that takes a value of type typ.
func typeLacks(typ ast.Expr, comment string) (lacks []string) {
	need := func(form *regexp.Regexp, what string) {
		if !form.MatchString(comment) {
			lacks = append(lacks, what)
		}
	}
	duration, number := numeric(typ)
	if duration {
		need(saysTime, `names no time with a unit, such as "30 s", "an hour" or DefaultTTL`)
	} else if number {
		need(saysUnit, `does not say what the number counts: "how many …", "the number of …", "bytes"`)
	}
	if duration || number {
		need(saysRange, `gives no range: "at least …", "at most …", "from … to …", "0 or more"`)
		need(saysError, `does not say what a value outside of the range does: name the error, or say "has no effect"`)
	}
	switch typ := typ.(type) {
	case *ast.FuncType, *ast.StarExpr, *ast.SelectorExpr:
		if !duration {
			need(regexp.MustCompile(`\bnil\b|zero value`), "does not say what nil does")
		}
	case *ast.Ident:
		if typ.Name == "string" {
			need(regexp.MustCompile(saysError.String()+`|any text|empty`), `does not say which texts are allowed, and the error otherwise: "any text", "otherwise the error is …"`)
		}
	}
	return lacks
}

func numeric(typ ast.Expr) (duration, number bool) {
	if sel, ok := typ.(*ast.SelectorExpr); ok {
		return sel.Sel.Name == "Duration", false
	}
	id, ok := typ.(*ast.Ident)
	return false, ok && slices.Contains([]string{"int", "int64", "uint64", "float64", "uint32"}, id.Name)
}

// configLacks returns what is missing in the comment of a Config. A required or wrong field has the
// same error for all fields, so that comment names it.
func configLacks(comment string) []string {
	if regexp.MustCompile(`\bErr[A-Z]\w*|no error|an error`).MatchString(oneLine(comment)) {
		return nil
	}
	return []string{"does not name the error of a wrong field"}
}

// checkFields checks the fields of a Config. The comment of the Config may say which fields are
// required, and what empty ones mean.
func checkFields(above string, fields *ast.StructType, complain func(token.Pos, string, []string)) {
	above = oneLine(above)
	general := regexp.MustCompile(`[Rr]equired|left out|[Nn]othing is needed|zero value|empty field`).MatchString(above)
	said := regexp.MustCompile(`(?i)\bdefault|\bempty\b|\bnil\b|required|left out|\b0\b|""|zero value|\bif\b|instead|without it`)
	for _, field := range fields.Fields.List {
		comment := oneLine(field.Doc.Text() + field.Comment.Text())
		for _, name := range field.Names {
			if !name.IsExported() {
				continue
			}
			var lacks []string
			if comment == "" {
				lacks = append(lacks, "is missing")
			} else if id, ok := field.Type.(*ast.Ident); !general && !said.MatchString(comment) && !(ok && id.Name == "bool") {
				lacks = append(lacks, `does not say what an empty field means: "the default is …", "… if it is empty", "required"`)
			}
			if duration, number := numeric(field.Type); duration || number {
				lacks = append(lacks, typeLacks(field.Type, comment+above)...)
			}
			complain(name.Pos(), name.Name, lacks)
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// optionBites are options that break the rule, and options that nearly break it.
var optionBites = []struct{ name, src, want string }{
	{"no default", "// A does.\nfunc A() Option", "does not say what happens without it"},
	{"a default", "// A does. By default it does not.\nfunc A() Option", ""},
	{"without it", "// A does. Without A, it does not.\nfunc A() Option", ""},
	{"without another", "// A does. Without B, it does not.\nfunc A() Option", "does not say what happens without it"},
	{"no option", "// A does.\nfunc A() Optional", ""},
	{"another package's option", "// A does.\nfunc A() padlock.ReleaseOption", "does not say what happens without it"},
	{"a method", "// A does.\nfunc (t T) A() Option", ""},
	{"a duration", "// A is from 1 ms to 2 s; otherwise New returns ErrInvalid. The default is 1 s.\nfunc A(d time.Duration) Option", ""},
	{"a duration without a unit", "// A is at least 1; otherwise New returns ErrInvalid. It is required.\nfunc A(d time.Duration) Option", "names no time"},
	{"a duration without a range", "// A takes as long as 1 s; otherwise New returns ErrInvalid. It is required.\nfunc A(d time.Duration) Option", "gives no range"},
	{"a duration without an error", "// A is from 1 ms to 2 s. The default is 1 s.\nfunc A(d time.Duration) Option", "outside of the range"},
	{"a number of nothing", "// A is at least 1; otherwise New returns ErrInvalid. It is required.\nfunc A(n int) Option", "what the number counts"},
	{"nil", "// A calls f. Without it, nothing is called.\nfunc A(f func()) Option", "what nil does"},
	{"a text", "// A is a name. The default is \"a\".\nfunc A(s string) Option", "which texts"},
	{"any text", "// A is any text. The default is \"a\".\nfunc A(s string) Option", ""},
	{"a Config without an error", "// Config is.\ntype Config struct {}", "does not name the error"},
	{"a field without a comment", "// Config is; or ErrInvalid.\ntype Config struct { A string }", "option A is missing"},
	{"a field without a default", "// Config is; or ErrInvalid.\ntype Config struct {\n// A is.\nA string }", "what an empty field means"},
	{"a required field", "// Config is; or ErrInvalid. Only A is required.\ntype Config struct {\n// A is.\nA string }", ""},
	{"a time in a field", "// Config is; or ErrInvalid.\ntype Config struct {\n// A is at least 1 s.\nA time.Duration }", "what an empty field means"},
	{"an option that is a struct", "// C is an Option; or ErrInvalid.\ntype C struct { A string }\nfunc (c C) applyManager() {}", "option A is missing"},
	{"a struct of a Config", "// Config is; or ErrInvalid. All may be left out.\ntype Config struct {\n// B is.\nB B }\n// B is; or ErrInvalid.\ntype B struct { A string }", "option A is missing"},
	{"another struct", "// B is.\ntype B struct { A string }", ""},
	{"a hidden field", "// Config is; or ErrInvalid.\ntype Config struct { a string }", ""},
}

func TestOptionsBite(t *testing.T) {
	for _, b := range optionBites {
		t.Run(b.name, func(t *testing.T) {
			f, err := parseHouse("x.go", ".", []byte("package p\n\n"+b.src+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			found, _ := checkOptions(f)
			expect(t, found, b.want)
		})
	}
}
