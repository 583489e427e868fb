package house

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// runFlag is a definition of a flag of `padlock run`: its name, perhaps its letter, and its help. A
// hidden flag has an empty help.
var runFlag = regexp.MustCompile(`\bf\.\w+\(.*?"([a-z-]+)", (?:"(\w)", )?.*"[^"]+"\)`)

// TestPagesNameFlagsAndOptions checks that a page for users has each flag of `padlock run` and each
// option of the root package: what no page shows, nobody finds.
func TestPagesNameFlagsAndOptions(t *testing.T) {
	var all strings.Builder
	for name, page := range readPages(t) {
		if name != "CHANGELOG.md" {
			all.WriteString(page)
		}
	}
	flags, options := 0, 0
	for _, f := range readHouse(t) {
		switch {
		case f.path == "cmd/padlock/internal/command/run_flags.go":
			for _, m := range runFlag.FindAllStringSubmatch(string(f.src), -1) {
				flags++
				if !hasWord(all.String(), "--"+m[1]) && (m[2] == "" || !hasWord(all.String(), "-"+m[2])) {
					t.Errorf("no page has --%s of padlock run", m[1])
				}
			}
		case f.pkg() == "." && public(f):
			for _, decl := range f.ast.Decls {
				if decl, ok := decl.(*ast.FuncDecl); ok && isOption(decl) {
					options++
					if !hasWord(all.String(), decl.Name.Name) {
						t.Errorf("no page has the option %s", decl.Name.Name)
					}
				}
			}
		}
	}
	if flags < 20 || options < 15 {
		t.Errorf("only %d flags and %d options were found", flags, options)
	}
}

// hasWord reports whether a text has a word, which may begin with dashes.
func hasWord(text, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `([^\w-]|$)`).MatchString(text)
}
