package house

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// termsPage has a table of words that have one meaning in the packages of locks. TestTerms compares
// it with the names of the code.
const termsPage = "docs/internals/words.md"

// A term is a row of the table: a word, or two words that follow each other in a name.
type term struct {
	words    []string
	packages []string // in which the word has its meaning; "all" stands for every package of locks
}

// An otherMeaning is a name in which a word has another meaning than the table says. The list only
// gets shorter.
type otherMeaning struct{ dir, name, instead string }

var otherMeanings = []otherMeaning{
	{"driver", "Places", "Locations"},
	{"driver", "Places.SamePlace", "SameLocation"},
	{"driver", "SamePlace", "SameLocation"},
	{"driver", "AbilitySamePlace", "AbilitySameLocation"},
	{"driver", "prefixed.SamePlace", "SameLocation"},
	{"drivertest", "places", "locations"},
	{"drivertest", "place", "position: the file and the line of a failure"},
	{"drivertest", "abilities.place", "location"},
	{"drivertest", "check.settle", "letWait: it gives a waiter time to start waiting"},
	{"drivertest", "check.settled", "mustAnswer"},
}

// samePlace is the method of driver.Places. Every store has it.
const samePlace = ".SamePlace"

func TestTerms(t *testing.T) {
	taste(t)
	var files []*houseFile
	for _, f := range readHouse(t) {
		if f.ast != nil && !f.test() && ofLocks(f.pkg()) {
			files = append(files, f)
		}
	}
	report(t, checkTerms(files, parseTerms(readText(t, termsPage)), otherMeanings))
}

// ofLocks reports whether a package belongs to those whose words the table has.
func ofLocks(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return slices.Contains([]string{".", "driver", "drivertest", "storekit", "stores"}, first)
}

// parseTerms reads the rows of the table whose third column has packages.
func parseTerms(page string) (terms []term) {
	_, page, _ = strings.Cut(page, "# Words of the code")
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "word" {
			continue
		}
		row := term{words: strings.Fields(cells[1])}
		for _, m := range spans.FindAllString(cells[3], -1) {
			row.packages = append(row.packages, strings.Trim(m, "`"))
		}
		if strings.TrimSpace(cells[3]) == "all" {
			row.packages = []string{"all"}
		}
		terms = append(terms, row)
	}
	return terms
}

// checkTerms reports names with a word of the table in a package in which it does not have that
// meaning, packages of the table without such a name, and exceptions that nothing needs any more.
func checkTerms(files []*houseFile, terms []term, others []otherMeaning) (found []string) {
	used, excused := map[string]bool{}, map[otherMeaning]bool{}
	for _, f := range files {
		for name, at := range declaredNames(f) {
			for _, row := range termsIn(name, terms) {
				word := strings.Join(row.words, " ")
				i := slices.IndexFunc(others, func(o otherMeaning) bool { return o.dir == f.pkg() && o.name == name })
				switch {
				case i >= 0:
					excused[others[i]] = true
				case word == "place" && strings.HasSuffix(name, samePlace):
				case slices.Contains(row.packages, f.pkg()) || slices.Contains(row.packages, "all"):
					used[word+" in "+f.pkg()] = true
				default:
					found = append(found, fmt.Sprintf("%s: %s: %q has one meaning, which %s says; find another word, or add the package if this is that meaning", at, name, word, termsPage))
				}
			}
		}
	}
	for _, row := range terms {
		for _, pkg := range row.packages {
			if word := strings.Join(row.words, " "); pkg != "all" && !used[word+" in "+pkg] {
				found = append(found, fmt.Sprintf("%s: no name of %s has the word %q any more: drop the package from the row", termsPage, pkg, word))
			}
		}
	}
	for _, o := range others {
		if !excused[o] {
			found = append(found, fmt.Sprintf("internal/house/terms_test.go: %s has no %s any more: drop it from otherMeanings", o.dir, o.name))
		}
	}
	return found
}

// termsIn returns the rows whose words are in the last part of a name. If two words of a name are a
// row together, the row of the second word alone does not count.
func termsIn(name string, terms []term) (rows []term) {
	words := wordsOf(name[strings.LastIndex(name, ".")+1:])
	for i := range words {
		var longest term
		for _, row := range terms {
			from := i + 1 - len(row.words)
			if from >= 0 && len(row.words) > len(longest.words) && slices.Equal(words[from:i+1], row.words) {
				longest = row
			}
		}
		if longest.words != nil {
			rows = append(rows, longest)
		}
	}
	return rows
}

var forms = regexp.MustCompile(`^(hold|slot|gate|line|place|settl|batch)(s|es|e|ed|es|ing|ement)?$`)

// wordsOf splits a name at its capital letters, and returns the words in their basic form.
func wordsOf(name string) (words []string) {
	begin := 0
	for i, r := range name + "A" {
		if i > begin && (unicode.IsUpper(r) || r == '_') {
			word := strings.ToLower(strings.Trim(name[begin:i], "_"))
			if m := forms.FindStringSubmatch(word); m != nil {
				if word = m[1]; word == "settl" {
					word = "settle"
				}
			}
			words, begin = append(words, word), i
		}
	}
	return words
}

// declaredNames returns the names that a file declares outside of functions, with their positions:
// the file's own name without its ending, "name" and "Type.member".
func declaredNames(f *houseFile) map[string]string {
	file := strings.TrimSuffix(path.Base(f.path), ".go")
	names := map[string]string{file: f.path}
	add := func(id *ast.Ident, of string) {
		if of != "" {
			of += "."
		}
		names[of+id.Name] = f.position(id.Pos())
	}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			of := ""
			if decl.Recv != nil {
				of = receiver(decl)
			}
			add(decl.Name, of)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						add(id, "")
					}
				case *ast.TypeSpec:
					add(spec.Name, "")
					for _, id := range membersOf(spec.Type) {
						add(id, spec.Name.Name)
					}
				}
			}
		}
	}
	return names
}

// membersOf returns the names of the fields of a struct, or of the methods of an interface.
func membersOf(typ ast.Expr) (ids []*ast.Ident) {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, member := range list.List {
		ids = append(ids, member.Names...)
	}
	return ids
}

func TestTermsBite(t *testing.T) {
	page := "| slot | x | `driver` |\n## Words of the code\n| word | meaning | packages | not |\n|---|---|---|---|\n" +
		"| slot | a permit | `stores/a` | |\n| hash slot | a part | `stores/a` | |\n| hold | a lock | all | |\n"
	terms := parseTerms(page)
	file := func(name, text string) *houseFile {
		f, err := parseHouse(name, ".", []byte("package p\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	good := file("stores/a/a.go", "type hashSlots struct { slots int }\nfunc newHold() {}\n")
	check := func(f *houseFile, others ...otherMeaning) []string {
		return checkTerms([]*houseFile{good, f}, terms, others)
	}
	expect(t, check(file("stores/b/b.go", "var slotted, mySlut int\ntype hold struct{}\n")), "")
	expect(t, check(file("stores/b/b.go", "type T struct{ freeSlots int }\n")), `T.freeSlots: "slot" has one meaning`)
	expect(t, check(file("stores/b/b.go", "func hashSlotOf() {}\n")), `hashSlotOf: "hash slot" has one meaning`)
	expect(t, check(file("stores/b/b.go", "type I interface{ Slot() int }\n")), `I.Slot: "slot" has one meaning`)
	expect(t, check(file("stores/b/slot_linux.go", "")), `slot_linux: "slot" has one meaning`)
	excuse := otherMeaning{"stores/b", "T.slots", "rows"}
	expect(t, check(file("stores/b/b.go", "type T struct{ slots int }\n"), excuse), "")
	expect(t, check(file("stores/b/b.go", ""), excuse), "stores/b has no T.slots any more")
	expect(t, checkTerms([]*houseFile{file("stores/a/b.go", "var hashSlots int\n")}, terms, nil), `no name of stores/a has the word "slot" any more`)
	if rows := parseTerms(page); len(rows) != 3 || !slices.Equal(slices.Sorted(maps.Keys(declaredNames(good))), []string{"a", "hashSlots", "hashSlots.slots", "newHold"}) {
		t.Errorf("the rows are %v, the names %v", rows, declaredNames(good))
	}
}
