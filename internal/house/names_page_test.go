package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestNamesOnPages reports names that are in the README or in a page under docs/, but not in the
// code. It knows names of the forms pkg.Name and Type.Member, flags of the command, and parameters
// in URLs. The page of renames is left out, because it shows the names of before.
func TestNamesOnPages(t *testing.T) {
	files := readHouse(t)
	names := exportedNames(files)
	words := quotedWords(files)
	for _, f := range files {
		if f.path == "docs/internals/renames.md" {
			continue
		}
		if f.path == "README.md" || path.Ext(f.path) == ".md" && strings.HasPrefix(f.path, "docs/") {
			report(t, checkNames(f.path, string(f.src), names))
			report(t, checkFlags(f.path, string(f.src), words))
		}
	}
}

// exportedNames returns the exported names. They have the form "driver.Store" for a declaration,
// "Store.Close" for a method or a field, "driver." for a package, and "Store." for a type.
func exportedNames(files []*houseFile) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		if f.ast == nil || f.test() || f.ast.Name.Name == "main" || strings.Contains(f.path, "internal/") {
			continue
		}
		pkg := f.ast.Name.Name + "."
		names[pkg] = true
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					names[pkg+decl.Name.Name] = true
				} else {
					names[receiver(decl)+"."+decl.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					noteSpec(names, pkg, spec)
				}
			}
		}
	}
	return names
}

func noteSpec(names map[string]bool, pkg string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			names[pkg+id.Name] = true
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		names[pkg+spec.Name.Name], names[spec.Name.Name+"."] = true, true
		var members *ast.FieldList
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			members = typ.Fields
		case *ast.InterfaceType:
			members = typ.Methods
		default:
			return
		}
		for _, member := range members.List {
			for _, id := range member.Names {
				names[spec.Name.Name+"."+id.Name] = true
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(decl *ast.FuncDecl) string {
	name := ""
	ast.Inspect(decl.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// variables maps the names that variables usually have on the pages to their types.
var variables = map[string]string{"lock.": "Lock.", "locker.": "Locker.", "script.": "Script."}

var qualified = regexp.MustCompile(`(?:^|[^\w./-])(\w+\.)([A-Z]\w*)`)

// checkNames looks only at the code in a page, in spans and in blocks. If the word before the dot
// is neither a package nor a type of the tree, the name is ignored: that word is a variable, or
// belongs to another project.
func checkNames(name, page string, names map[string]bool) []string {
	var found []string
	for _, code := range append(spans.FindAllString(fenced.ReplaceAllString(page, ""), -1), goBlock.FindAllString(page, -1)...) {
		for _, m := range qualified.FindAllStringSubmatch(code, -1) {
			of := m[1]
			if typ := variables[of]; typ != "" {
				of = typ
			}
			if names[of] && !names[of+m[2]] {
				found = append(found, fmt.Sprintf("%s: the code has no %s%s", name, of, m[2]))
			}
		}
	}
	return found
}

var (
	goBlock   = regexp.MustCompile("(?ms)^```go\n.*?^```")
	literal   = regexp.MustCompile(`"([a-z][a-z-]*)[",]|\b([a-z][a-z-]*)=`)
	command   = regexp.MustCompile("(?m)(?:^|`|\\$ |\\| )padlock [^`\n]*")
	longFlag  = regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z-]*)`)
	parameter = regexp.MustCompile(`[a-z]:[^\s]*?\?([a-z-]+)=|[?&]([a-z]+-[a-z-]+)=`)
)

// quotedWords returns the words in the string literals of the code. The names of all flags and
// parameters are among them.
func quotedWords(files []*houseFile) map[string]bool {
	words := map[string]bool{}
	for _, f := range files {
		if f.ast == nil || f.test() {
			continue
		}
		for _, m := range literal.FindAllStringSubmatch(string(f.src), -1) {
			words[m[1]+m[2]] = true
		}
	}
	return words
}

// checkFlags reports flags of padlock and parameters in URLs that are on the page, but not among
// the words of the code. It ignores the flags of a command that padlock runs.
func checkFlags(name, page string, words map[string]bool) []string {
	var found []string
	for _, line := range command.FindAllString(page, -1) {
		line, _, _ = strings.Cut(line, " -- ")
		line, _, _ = strings.Cut(line, " | ")
		for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
			if !words[m[1]] {
				found = append(found, fmt.Sprintf("%s: padlock has no --%s", name, m[1]))
			}
		}
	}
	for _, m := range parameter.FindAllStringSubmatch(page, -1) {
		if word := m[1] + m[2]; !words[word] {
			found = append(found, fmt.Sprintf("%s: no URL has the parameter %s=", name, word))
		}
	}
	return found
}

func TestNamesOnPagesBites(t *testing.T) {
	f, err := parseHouse("x.go", ".", []byte("package padlock\ntype Lock struct{}\nfunc (l *Lock) Release() {}\nfunc New() {}\nvar _ = \"cool-down\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	names, words := exportedNames([]*houseFile{f}), quotedWords([]*houseFile{f})
	expect(t, checkNames("x.md", "`padlock.New()`, `Lock.Release`, `redis.Options`, file.Name", names), "")
	expect(t, checkNames("x.md", "`padlock.Old()`", names), "the code has no padlock.Old")
	expect(t, checkNames("x.md", "\n```go\nx := padlock.Old()\n```\n", names), "the code has no padlock.Old")
	expect(t, checkNames("x.md", "`Lock.Give`", names), "the code has no Lock.Give")
	expect(t, checkNames("x.md", "`lock.Give()`", names), "the code has no Lock.Give")
	expect(t, checkFlags("x.md", "`padlock run --cool-down 1s x -- tar --gzip`", words), "")
	expect(t, checkFlags("x.md", "`padlock run --warm-up 1s x`", words), "padlock has no --warm-up")
	expect(t, checkFlags("x.md", "`redis://h?cool-down=yes`", words), "")
	expect(t, checkFlags("x.md", "`redis://h?warm-up=yes`", words), "no URL has the parameter warm-up=")
}
