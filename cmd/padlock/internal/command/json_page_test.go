package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The table of messages in docs/json.md has every event that the command writes with --json, and
// no other.
func TestEventsAreOnThePage(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| `event` | the message |\n|---|---|\n")
	if !found {
		t.Fatal("docs/json.md has no table of the events")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	onPage := map[string]bool{}
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cell, -1) {
			onPage[m[1]] = true
		}
	}
	written := events(t)
	if len(written) < 10 {
		t.Fatalf("the code has only %v", written)
	}
	for event, at := range written {
		if !onPage[event] {
			t.Errorf("%s: the event %q is not on the page", at, event)
		}
	}
	for event := range onPage {
		if written[event] == "" {
			t.Errorf("no code writes the event %q of the page", event)
		}
	}
}

// events returns the values of note.Event in the code, with a place of each.
func events(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal := eventOf(n); literal != nil {
				event, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[event] = set.Position(literal.Pos()).String()
			}
			return true
		})
	}
	return found
}

// eventOf returns the event in a call of fail or in a note, or nil.
func eventOf(n ast.Node) *ast.BasicLit {
	switch n := n.(type) {
	case *ast.CallExpr:
		if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "fail" {
			literal, _ := n.Args[1].(*ast.BasicLit)
			return literal
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Event" {
			literal, _ := n.Value.(*ast.BasicLit)
			return literal
		}
	}
	return nil
}
