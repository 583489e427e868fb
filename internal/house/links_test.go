package house

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestLinks checks that every link of every page to a file of the tree, or to a heading in it,
// leads somewhere.
func TestLinks(t *testing.T) {
	pages := map[string]string{}
	for _, f := range readHouse(t) {
		if path.Ext(f.path) == ".md" {
			pages[f.path] = string(f.src)
		}
	}
	exists := func(name string) bool {
		_, err := os.Stat(name)
		return !errors.Is(err, fs.ErrNotExist)
	}
	for name, text := range pages {
		report(t, checkLinks(name, text, pages, exists))
	}
}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```")
	spans  = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	module = regexp.MustCompile(`\.\./padlock/([a-z0-9/]+)`) // in a reader's workspace
)

// checkLinks reports links and workspace lines of one page that lead nowhere. Links to other sites
// are not followed.
func checkLinks(name, text string, pages map[string]string, exists func(string) bool) []string {
	var found []string
	for _, m := range module.FindAllStringSubmatch(text, -1) {
		if !exists(m[1] + "/go.mod") {
			found = append(found, fmt.Sprintf("%s: %s is no module of this tree", name, m[0]))
		}
	}
	prose := spans.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
	for _, m := range link.FindAllStringSubmatch(prose, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file := name
		if target != "" {
			file = path.Join(path.Dir(name), target)
		}
		if !exists(file) {
			found = append(found, fmt.Sprintf("%s: the link %s leads to no file", name, m[1]))
		} else if page, ok := pages[file]; ok && anchor != "" && !hasHeading(page, anchor) {
			found = append(found, fmt.Sprintf("%s: the link %s leads to no heading", name, m[1]))
		}
	}
	return found
}

// hasHeading reports whether a heading of the page has this anchor on GitHub.
func hasHeading(page, anchor string) bool {
	for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
		if strings.HasPrefix(line, "#") && anchorOf(line) == anchor {
			return true
		}
	}
	return false
}

// anchorOf is the anchor of a heading: small letters, digits, hyphens and underscores, and a hyphen
// for each space.
func anchorOf(heading string) string {
	heading = strings.TrimSpace(strings.TrimLeft(heading, "#"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestLinksBite(t *testing.T) {
	pages := map[string]string{"docs/a.md": "# A page\n\n## My lock is `stuck`: what now?\n", "README.md": "", "stores/zkstore/go.mod": ""}
	exists := func(name string) bool { _, ok := pages[name]; return ok }
	check := func(text string) []string { return checkLinks("docs/b.md", text, pages, exists) }
	expect(t, check("[a](a.md) [b](../README.md) [c](a.md#my-lock-is-stuck-what-now) [d](https://example.org/x)"), "")
	expect(t, check("see [a](c.md)"), "the link c.md leads to no file")
	expect(t, check("see [a](a.md#stuck)"), "the link a.md#stuck leads to no heading")
	expect(t, check("```\n[a](c.md)\n```\n and `As[T](store)`"), "")
	expect(t, check("see [`a`](c.md)"), "the link c.md leads to no file")
	expect(t, check("`go work init . ../padlock ../padlock/stores/zkstore`"), "")
	expect(t, check("`go work init . ../padlock ../padlock/zkstore`"), "../padlock/zkstore is no module of this tree")
}
