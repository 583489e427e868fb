package padlock_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// checkDocs reports exported names without a comment, in packages that others
// can import.
func checkDocs(f *houseFile) []string {
	if f.ast == nil || f.test() || f.ast.Name.Name == "main" || slices.Contains(strings.Split(f.path, "/"), "internal") {
		return nil
	}
	var found []string
	missing := func(name *ast.Ident, what string) {
		found = append(found, fmt.Sprintf("%s: exported %s %s has no comment: every exported name says what it is, in which units, which errors, whether goroutines may share it",
			f.at(name.Pos()), what, name.Name))
	}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Name.IsExported() && decl.Doc == nil && exportedReceiver(decl) {
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

// exportedReceiver is false for methods that no user of the package sees in
// its documentation.
func exportedReceiver(decl *ast.FuncDecl) bool {
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
	return !ok || name.IsExported()
}

// checkSpec looks at one type, constant or variable. The comment on a group
// speaks for all constants and variables of the group.
func checkSpec(decl *ast.GenDecl, spec ast.Spec, missing func(*ast.Ident, string)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		if spec.Doc == nil && spec.Comment == nil && (decl.Doc == nil || decl.Lparen.IsValid()) {
			missing(spec.Name, "type")
		}
		checkFields(spec.Type, missing)
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

// checkFields looks at the fields of a struct and the methods of an interface.
func checkFields(typ ast.Expr, missing func(*ast.Ident, string)) {
	var fields *ast.FieldList
	what := "field"
	switch typ := typ.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields, what = typ.Methods, "method"
	default:
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil {
				missing(name, what)
			}
		}
	}
}

// checkPackageDocs reports packages without a package comment.
func checkPackageDocs(files []*houseFile) []string {
	documented := map[string]bool{}
	first := map[string]*houseFile{}
	for _, f := range files {
		if f.ast == nil || f.test() || slices.Contains(strings.Split(f.path, "/"), "testdata") {
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
				first[pkg].at(first[pkg].ast.Package), pkg, path.Join(pkg, "doc.go")))
		}
	}
	return found
}

