package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// checkDocs reports exported names without a comment, in packages that others can import.
func checkDocs(f *houseFile) []string {
	if f.ast == nil || f.test() || f.ast.Name.Name == "main" || slices.Contains(strings.Split(f.path, "/"), "internal") {
		return nil
	}
	var found []string
	missing := func(name *ast.Ident, what string) {
		found = append(found, fmt.Sprintf("%s: exported %s %s has no comment: every exported name says what it is, in which units, which errors, whether goroutines may share it",
			f.position(name.Pos()), what, name.Name))
	}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Name.IsExported() && decl.Doc == nil && inDocs(decl) {
				missing(decl.Name, "function")
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				checkSpec(decl, spec, missing)
			}
		}
	}
	return found
}

// wellKnown are methods that the standard library documents.
var wellKnown = []string{"Error", "Is", "String", "Unwrap"}

// inDocs reports whether a function needs a comment. It returns false for methods that users of the
// package do not see, and for well-known methods.
func inDocs(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	typ := decl.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	return !slices.Contains(wellKnown, decl.Name.Name) && (!ok || name.IsExported())
}

// checkSpec checks one type, constant or variable. The comment on a group counts for all constants
// and variables of the group.
func checkSpec(decl *ast.GenDecl, spec ast.Spec, missing func(*ast.Ident, string)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		if spec.Doc == nil && spec.Comment == nil && (decl.Doc == nil || decl.Lparen.IsValid()) {
			missing(spec.Name, "type")
		}
		checkMethods(spec.Type, missing)
	case *ast.ValueSpec:
		if spec.Doc != nil || spec.Comment != nil || decl.Doc != nil {
			return
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				missing(name, decl.Tok.String())
			}
		}
	}
}

// checkMethods checks interfaces with several methods. An interface with a single method, or a
// struct with fields, needs only the comment on its type.
func checkMethods(typ ast.Expr, missing func(*ast.Ident, string)) {
	iface, ok := typ.(*ast.InterfaceType)
	if !ok || iface.Methods.NumFields() < 2 {
		return
	}
	for _, method := range iface.Methods.List {
		for _, name := range method.Names {
			if name.IsExported() && method.Doc == nil && method.Comment == nil {
				missing(name, "method")
			}
		}
	}
}

// checkPackageDocs reports packages without a package comment.
func checkPackageDocs(files []*houseFile) []string {
	documented := map[string]bool{}
	first := map[string]*houseFile{}
	for _, f := range files {
		if f.ast == nil || f.test() {
			continue
		}
		documented[f.pkg()] = documented[f.pkg()] || f.ast.Doc != nil
		if first[f.pkg()] == nil {
			first[f.pkg()] = f
		}
	}
	var found []string
	for pkg, ok := range documented {
		if !ok {
			found = append(found, fmt.Sprintf("%s: package %s has no comment: a package says what it is for, best in %s",
				first[pkg].position(first[pkg].ast.Package), pkg, path.Join(pkg, "doc.go")))
		}
	}
	return found
}
