package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// onNoPage are programs of which a page shows at most the lines that matter.
var onNoPage = []string{"leader", "metrics", "shop", "terraform-backend", "web-page"}

var program = regexp.MustCompile("(?s)```go\n(package main\n.*?\n)```\n")

// Each program of a page is a folder here, word for word. Each folder is in the README of the
// examples, and on a page or in onNoPage.
func TestTheProgramsOfThePages(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{} // the page of a program
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range program.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "\nfunc main() {") {
				shown[m[1]] = filepath.Base(page)
			}
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folders {
		name := filepath.Dir(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "go run ./examples/"+name+"`") {
			t.Errorf("README.md does not list %s", name)
		}
		page, ok := shown[string(text)]
		if delete(shown, string(text)); !ok && !slices.Contains(onNoPage, name) {
			t.Errorf("no page has the program of %s as it is in main.go", name)
		}
		if ok && !strings.Contains(string(readme), page) {
			t.Errorf("README.md does not link to %s", page)
		}
	}
	for text, page := range shown {
		t.Errorf("a program of %s is in no folder of examples:\n%s", page, text)
	}
}
