package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const errorsPage = "docs/errors.md"

// errorsPages are the pages with rows of errors. Those of sessions and of cached values are on the
// pages of their packages.
var errorsPages = []string{errorsPage, "docs/sessions.md", "docs/stampede.md"}

// errorPackages are the packages whose errors a user meets, by their directories.
var errorPackages = map[string]string{".": "padlock", "driver": "driver", "fence": "fence", "web/session": "session", "web/session/sessionstore": "sessionstore", "web/stampede": "stampede"}

// TestErrorsPage compares errorsPages with the exported errors, and docs/errors.md with the exit
// statuses in the code.
func TestErrorsPage(t *testing.T) {
	files := readHouse(t)
	var all strings.Builder
	for _, page := range errorsPages {
		all.WriteString(readText(t, page))
	}
	report(t, checkErrorsPage(all.String(), exportedErrors(files)))
	page := readText(t, errorsPage)
	report(t, checkStatuses(page, append(append(exitStatuses(files, "cmd/padlock/internal/command"), exitStatuses(files, "lab/padlock-verify")...), "0")))
}

// exportedErrors returns the exported variables Err… of errorPackages, as "padlock.ErrHeld". A name
// with the value true is a second name for another package's error. The page may leave it out.
func exportedErrors(files []*houseFile) map[string]bool {
	all := map[string]bool{}
	for _, f := range files {
		name, listed := errorPackages[f.pkg()]
		if f.ast == nil || f.test() || !listed {
			continue
		}
		for _, spec := range valueSpecs(f.ast, token.VAR) {
			for i, id := range spec.Names {
				if !strings.HasPrefix(id.Name, "Err") {
					continue
				}
				if _, known := all[name+"."+id.Name]; !known {
					all[name+"."+id.Name] = false
				}
				if i < len(spec.Values) {
					noteAlias(all, name, id.Name, spec.Values[i])
				}
			}
		}
	}
	return all
}

// noteAlias marks the second name of an error that has two names. The page may leave out that name.
// If one of the names is in package padlock or session, the other is the second name, because users
// see that one.
func noteAlias(all map[string]bool, pkg, name string, value ast.Expr) {
	sel, ok := value.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(sel.Sel.Name, "Err") {
		return
	}
	if x, ok := sel.X.(*ast.Ident); ok && (pkg == "padlock" || pkg == "session") {
		all[x.Name+"."+sel.Sel.Name] = true
	} else {
		all[pkg+"."+name] = true
	}
}

func valueSpecs(file *ast.File, tok token.Token) []*ast.ValueSpec {
	var specs []*ast.ValueSpec
	for _, decl := range file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == tok {
			for _, spec := range gen.Specs {
				specs = append(specs, spec.(*ast.ValueSpec))
			}
		}
	}
	return specs
}

var errorRow = regexp.MustCompile("(?m)^\\| `([a-z]+\\.Err[A-Za-z]+)` \\| [^|]+ \\| [^|]+ \\|$")

// checkErrorsPage reports errors without a row and rows without an error.
func checkErrorsPage(page string, errors map[string]bool) []string {
	rows := map[string]int{}
	for _, m := range errorRow.FindAllStringSubmatch(page, -1) {
		rows[m[1]]++
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		if rows[name] == 0 && !errors[name] {
			found = append(found, fmt.Sprintf("%s: %s has no row: a user who meets it looks here", errorsPage, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if _, known := errors[name]; !known {
			found = append(found, fmt.Sprintf("%s: there is no %s", errorsPage, name))
		}
		if rows[name] > 1 {
			found = append(found, fmt.Sprintf("%s: %s has %d rows", errorsPage, name, rows[name]))
		}
	}
	return found
}

// exitStatuses returns the numbers of the constants exit… of a package.
func exitStatuses(files []*houseFile, dir string) []string {
	var all []string
	for _, f := range files {
		if f.ast == nil || f.test() || f.pkg() != dir {
			continue
		}
		for _, spec := range valueSpecs(f.ast, token.CONST) {
			for i, id := range spec.Names {
				if !strings.HasPrefix(id.Name, "exit") || i >= len(spec.Values) {
					continue
				}
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.INT {
					all = append(all, lit.Value)
				}
			}
		}
	}
	return all
}

var statusRow = regexp.MustCompile(`(?m)^\| ([0-9]+) \|`)

// checkStatuses reports exit statuses without a row and rows without a status.
func checkStatuses(page string, statuses []string) []string {
	var rows, found []string
	for _, m := range statusRow.FindAllStringSubmatch(page, -1) {
		rows = append(rows, m[1])
	}
	for _, s := range statuses {
		if !slices.Contains(rows, s) {
			found = append(found, fmt.Sprintf("%s: exit status %s has no row", errorsPage, s))
		}
	}
	for _, r := range rows {
		if !slices.Contains(statuses, r) {
			found = append(found, fmt.Sprintf("%s: no exit status of the code is %s", errorsPage, r))
		}
	}
	return found
}

func TestErrorsPageBites(t *testing.T) {
	f, err := parseHouse("errors.go", ".", []byte("package padlock\nvar (\nErrA = driver.ErrA\nErrB = errors.New(\"b\")\n)\n"))
	if err != nil {
		t.Fatal(err)
	}
	errors := exportedErrors([]*houseFile{f})
	row := func(name string) string { return "| `" + name + "` | it happened | wait |\n" }
	expect(t, checkErrorsPage(row("padlock.ErrA")+row("padlock.ErrB"), errors), "")
	expect(t, checkErrorsPage(row("padlock.ErrA"), errors), "padlock.ErrB has no row")
	expect(t, checkErrorsPage(row("padlock.ErrA")+row("padlock.ErrB")+row("padlock.ErrC"), errors), "there is no padlock.ErrC")
	expect(t, checkErrorsPage(row("padlock.ErrA")+row("padlock.ErrB")+row("padlock.ErrB"), errors), "has 2 rows")
	expect(t, checkStatuses("| 75 | held | wait |\n", []string{"75", "79"}), "exit status 79 has no row")
	expect(t, checkStatuses("| 75 | held | wait |\n| 80 | what | no |\n", []string{"75"}), "no exit status of the code is 80")
}
