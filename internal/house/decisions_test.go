package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The page about the design stays short, because the decisions have pages of their own. Each of
// these is about one decision, and the index names it by its title.
const (
	decisionsDir     = "docs/decisions"
	maxDesignWords   = 2600
	maxDecisionWords = 200
)

func TestDecisions(t *testing.T) {
	pages := map[string]string{}
	for _, f := range readHouse(t) {
		if f.pkg() == decisionsDir && path.Ext(f.path) == ".md" {
			pages[path.Base(f.path)] = string(f.src)
		}
	}
	report(t, checkDecisions(pages))
	if n := len(strings.Fields(readText(t, designPage))); n > maxDesignWords {
		t.Errorf("%s has %d words, and %d are enough: move a reason to %s", designPage, n, maxDesignWords, decisionsDir)
	}
}

var indexLine = regexp.MustCompile(`(?m)^- \[((?:[^\]]|\n)+)\]\(([^)\s]+)\)$`)

// checkDecisions compares the index of the decisions with their pages.
func checkDecisions(pages map[string]string) []string {
	var found []string
	say := func(format string, args ...any) {
		found = append(found, decisionsDir+"/"+fmt.Sprintf(format, args...))
	}
	listed := map[string]string{}
	for _, m := range indexLine.FindAllStringSubmatch(pages["README.md"], -1) {
		title := strings.Join(strings.Fields(m[1]), " ")
		if listed[m[2]] != "" {
			say("README.md: %s is listed twice", m[2])
		}
		if listed[m[2]] = title; pages[m[2]] == "" {
			say("README.md: %s does not exist", m[2])
		}
	}
	for name, page := range pages {
		if name == "README.md" {
			continue
		}
		first, _, _ := strings.Cut(page, "\n")
		title, ok := strings.CutPrefix(first, "# ")
		if n := len(strings.Fields(page)); n > maxDecisionWords {
			say("%s: %d words; a decision needs at most %d", name, n, maxDecisionWords)
		}
		switch {
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
		return map[string]string{"README.md": "# Decisions\n\n" + index, "a-b.md": page}
	}
	good := "# A lock is\nRejected: a door.\n"
	expect(t, checkDecisions(pages("- [A lock\n  is](a-b.md)\n", "# A lock is\n\nRejected: a door.\n")), "")
	expect(t, checkDecisions(pages("- [A lock](a-b.md)\n", good)), `the title of a-b.md is "A lock is"`)
	expect(t, checkDecisions(pages("", good)), "no line for a-b.md")
	expect(t, checkDecisions(pages("- [A lock is](a-b.md)\n- [A lock is](a-b.md)\n", good)), "a-b.md is listed twice")
	expect(t, checkDecisions(pages("- [A lock is](a-b.md)\n- [C](c.md)\n", good)), "c.md does not exist")
	expect(t, checkDecisions(pages("- [A lock is](a-b.md)\n", "A lock is\n")), "the first line is no title")
	expect(t, checkDecisions(pages("- [A lock is](a-b.md)\n", good+strings.Repeat("word ", 200))), "a decision needs at most 200")
}
