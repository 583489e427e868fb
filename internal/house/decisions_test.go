package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// decisionsDir has a page for each subject, with a heading for each decision.
const decisionsDir = "docs/decisions"

func TestDecisions(t *testing.T) {
	pages := map[string]string{}
	for _, f := range readHouse(t) {
		if f.pkg() == decisionsDir && path.Ext(f.path) == ".md" {
			pages[path.Base(f.path)] = string(f.src)
		}
	}
	report(t, checkDecisions(pages))
}

var indexLine = regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([^)\s]+)\)`)

// checkDecisions compares the index of the decisions with their pages.
func checkDecisions(pages map[string]string) []string {
	var found []string
	say := func(format string, args ...any) {
		found = append(found, decisionsDir+"/"+fmt.Sprintf(format, args...))
	}
	listed := map[string]string{}
	for _, m := range indexLine.FindAllStringSubmatch(pages["README.md"], -1) {
		if listed[m[2]] != "" {
			say("README.md: %s is listed twice", m[2])
		}
		if listed[m[2]] = m[1]; pages[m[2]] == "" {
			say("README.md: %s does not exist", m[2])
		}
	}
	for name, page := range pages {
		if name == "README.md" {
			continue
		}
		first, _, _ := strings.Cut(page, "\n")
		switch title, ok := strings.CutPrefix(first, "# "); {
		case !ok:
			say("%s: the first line is no title", name)
		case listed[name] == "":
			say("README.md: no line for %s", name)
		case listed[name] != title:
			say("README.md: the title of %s is %q", name, title)
		}
	}
	return found
}

func TestDecisionsBite(t *testing.T) {
	pages := func(index, page string) map[string]string {
		return map[string]string{"README.md": "# Decisions\n\n" + index, "a.md": page}
	}
	good := "# Locks\n\n## A lock is\n\nRejected: a door.\n"
	expect(t, checkDecisions(pages("- [Locks](a.md): doors\n", good)), "")
	expect(t, checkDecisions(pages("- [A lock](a.md)\n", good)), `the title of a.md is "Locks"`)
	expect(t, checkDecisions(pages("", good)), "no line for a.md")
	expect(t, checkDecisions(pages("- [Locks](a.md)\n- [Locks](a.md)\n", good)), "a.md is listed twice")
	expect(t, checkDecisions(pages("- [Locks](a.md)\n- [C](c.md)\n", good)), "c.md does not exist")
	expect(t, checkDecisions(pages("- [Locks](a.md)\n", "A lock is\n")), "the first line is no title")
}
