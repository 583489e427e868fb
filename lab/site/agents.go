package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// sections are what a coding agent needs most. coding-agents.md is made of them.
var sections = []struct{ page, heading string }{
	{"docs/first-program.md", "## 1. Make a module"},
	{"docs/first-program.md", "## 2. Write main.go"},
	{"docs/first-program.md", "## What to know next"},
	{"docs/which-store.md", "### What do you have?"},
	{"docs/which-store.md", "### What may not happen?"},
	{"docs/which-store.md", "### How long does the work take?"},
	{"docs/errors.md", "## Locks"},
	{"docs/errors.md", "## Exit statuses of the command"},
}

var (
	pageLink = regexp.MustCompile(`\]\(([^)#]+\.md)(?:#[^)]*)?\)`)
	anyLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	sentence = regexp.MustCompile(`^.*?\.(?:\s|$)`)
	fenced   = regexp.MustCompile("(?s)\n```.*?\n```")
)

// forAgents returns the files of a site that are for programs which read: llms.txt has a line for each
// page that docs/README.md links, and coding-agents.md has the sections. Their links lead to the pages
// of the site.
func forAgents(pages fs.FS) (map[string]string, error) {
	read := func(name string) (string, error) {
		text, err := fs.ReadFile(pages, name)
		return string(text), err
	}
	readme, err := read("README.md")
	if err != nil {
		return nil, err
	}
	index, err := read("docs/README.md")
	if err != nil {
		return nil, err
	}
	list := "# padlock\n\n> " + opening(readme) + "\n\nThe shortest page for coding agents is [coding-agents.md](coding-agents.md).\n"
	seen := map[string]bool{}
	for _, part := range strings.Split(index, "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		list += "\n## " + heading + "\n\n"
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			name := path.Join("docs", m[1])
			if seen[name] {
				continue
			}
			seen[name] = true
			page, err := read(name)
			if err != nil {
				return nil, fmt.Errorf("docs/README.md: %w", err)
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
			list += fmt.Sprintf("- [%s](%s)", title, htmlOf(name))
			first := opening(page)
			list += ": " + strings.TrimRight(cmp.Or(sentence.FindString(first), first), ": ") + "\n"
		}
	}
	short := "# padlock for coding agents\n\nEverything here is copied from the pages, which [llms.txt](llms.txt) lists.\n"
	for _, s := range sections {
		page, err := read(s.page)
		if err != nil {
			return nil, err
		}
		text := section(page, s.heading)
		if text == "" {
			return nil, fmt.Errorf("%s has no section %q", s.page, s.heading)
		}
		short += "\n" + anyLink.ReplaceAllStringFunc(text, func(link string) string {
			return "](" + onSite(s.page, anyLink.FindStringSubmatch(link)[1]) + ")"
		})
	}
	return map[string]string{"llms.txt": list, "coding-agents.md": short}, nil
}

// opening returns the first paragraph of a page, without links. Headings, tables, lists, pictures and
// lines of links are no paragraphs.
func opening(page string) string {
	for _, part := range strings.Split(fenced.ReplaceAllString(page, ""), "\n\n")[1:] {
		part = strings.TrimSpace(part)
		if part == "" || strings.ContainsAny(part[:1], "|<#![-") {
			continue
		}
		return strings.Join(strings.Fields(linkText.ReplaceAllString(part, "$1")), " ")
	}
	return ""
}

// section returns the part of a page from a heading to the next one of its level or a higher one.
func section(page, heading string) string {
	_, text, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		return ""
	}
	level := strings.Index(heading, " ")
	if end := regexp.MustCompile(fmt.Sprintf(`\n#{2,%d} `, level)).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return heading + "\n" + strings.TrimRight(text, "\n") + "\n"
}

// onSite returns where a link of a page leads from the root of the site.
func onSite(page, to string) string {
	if strings.Contains(to, "://") {
		return to
	}
	file, id, anchored := strings.Cut(to, "#")
	name := page
	if file != "" {
		name = path.Join(path.Dir(page), file)
	}
	if path.Ext(name) == ".md" {
		name = htmlOf(name)
	} else {
		name = onGitHub + name
	}
	if anchored {
		name += "#" + id
	}
	return name
}

// htmlOf is the file that both generators make of a page.
func htmlOf(page string) string {
	if path.Base(page) == "README.md" {
		return path.Join(path.Dir(page), "index.html")
	}
	return strings.TrimSuffix(page, ".md") + ".html"
}
