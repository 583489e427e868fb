package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestMarkdown checks that the pages keep to the Markdown that GitHub, Hugo and MkDocs render in
// the same way. make site builds the pages with the latter two.
func TestMarkdown(t *testing.T) {
	for _, f := range readHouse(t) {
		if path.Ext(f.path) == ".md" && !strings.HasPrefix(f.path, ".github/") {
			report(t, checkMarkdown(f.path, string(f.src)))
		}
	}
}

var listItem = regexp.MustCompile(`^( *)([-*]|\d+\.) `)

func checkMarkdown(name, text string) []string {
	var found []string
	fence, before := false, ""
	for i, line := range strings.Split(text, "\n") {
		fault := ""
		item := listItem.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			fence = !fence
			if strings.HasPrefix(line, " ") {
				fault = "MkDocs does not show a code block inside a list: put it outside"
			}
		case fence:
		case item != nil && item[1] != "":
			fault = "MkDocs does not show a list inside a list"
		case item != nil && before != "" && before[0] != ' ' && !listItem.MatchString(before):
			fault = "MkDocs does not show a list without an empty line before it"
		case strings.HasPrefix(strings.TrimLeft(line, " "), "|") && line[0] == ' ':
			fault = "MkDocs does not show a table inside a list: put it outside"
		case strings.HasPrefix(line, "    ") && before == "":
			fault = "write a code block with ```"
		}
		if fault != "" {
			found = append(found, fmt.Sprintf("%s:%d: %s", name, i+1, fault))
		}
		before = line
	}
	return found
}

func TestMarkdownBites(t *testing.T) {
	for text, want := range map[string]string{
		"text\n\n- item\n  goes on\n- item\n\n```\n- x\n    y\n```\n": "",
		"text\n- item":         "without an empty line",
		"- item\n  - inner":    "list inside a list",
		"- item\n\n  ```\n  x": "code block inside a list",
		"- item\n\n  | a |":    "table inside a list",
		"text\n\n    x := 1":   "write a code block",
	} {
		expect(t, checkMarkdown("docs/a.md", text), want)
	}
}
