// Command site completes and checks the HTML that Hugo and MkDocs have made of the pages:
//
//	go run ./lab/site PAGES dist/site/hugo dist/site/mkdocs
//
// The folder PAGES has the Markdown, the others have the sites (.ci/site makes all of them). Each site
// gets llms.txt and coding-agents.md, which are made of the pages. The check finds pages that are
// missing, also in the index of the search, and links and images that lead nowhere. TestMarkdown of
// internal/house keeps the pages in the Markdown that both render as GitHub does.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "site: name the folder of the pages and those of the sites")
		os.Exit(64)
	}
	texts, err := forAgents(os.DirFS(os.Args[1]))
	for _, dir := range os.Args[2:] {
		for name, text := range texts {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	bad := false
	for _, dir := range os.Args[2:] {
		found, pages, err := check(os.DirFS(os.Args[1]), os.DirFS(dir), os.DirFS("."))
		if err != nil {
			fmt.Fprintln(os.Stderr, "site:", err)
			os.Exit(1)
		}
		for _, line := range found {
			fmt.Printf("%s: %s\n", dir, line)
		}
		fmt.Printf("%s: %d pages, %d faults\n", dir, pages, len(found))
		bad = bad || len(found) > 0
	}
	if bad {
		os.Exit(1)
	}
}

// check returns the faults of one site and the number of its pages. The links to GitHub must lead
// to files of tree.
func check(pages, site, tree fs.FS) (found []string, count int, err error) {
	s := shown{site: site, tree: tree, ids: map[string]map[string]bool{}}
	search, err := fs.ReadFile(site, "search/search_index.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	for _, name := range []string{"llms.txt", "coding-agents.md"} {
		text, _ := fs.ReadFile(site, name) // the tests have sites without
		for _, m := range anyLink.FindAllStringSubmatch(string(text), -1) {
			for _, fault := range s.links(name, `<a href="`+m[1]+`">`) {
				found = append(found, name+": "+fault)
			}
		}
	}
	err = fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		count++
		to := htmlOf(name)
		if search != nil && !bytes.Contains(search, []byte(`"location":"`+to)) {
			found = append(found, to+": the search does not know the page")
		}
		page, err := fs.ReadFile(site, to)
		if errors.Is(err, fs.ErrNotExist) {
			found = append(found, to+": the page is missing")
			return nil
		}
		if err != nil {
			return err
		}
		for _, fault := range s.links(to, string(page)) {
			found = append(found, to+": "+fault)
		}
		return nil
	})
	return found, count, err
}

// shown is a site whose links are followed.
type shown struct {
	site, tree fs.FS
	ids        map[string]map[string]bool // the anchors of each page
}

const onGitHub = "https://github.com/padlock-go/padlock/blob/main/"

var (
	target = regexp.MustCompile(`<[a-z]+\s[^>]*?(?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(`<[a-z0-9]+\s[^>]*?id="([^"]*)"`)
)

// links reports links and images of a page that lead nowhere.
func (s shown) links(page, text string) []string {
	var found []string
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		to := html.UnescapeString(m[1])
		if file, here := strings.CutPrefix(to, onGitHub); here {
			file, _, _ = strings.Cut(file, "#")
			if _, err := fs.Stat(s.tree, path.Clean(file)); err != nil {
				found = append(found, to+" leads to no file of the tree")
			}
			continue
		}
		if strings.Contains(to, ":") || strings.HasPrefix(to, "//") {
			continue // another site
		}
		file, id, _ := strings.Cut(to, "#")
		if file == "" {
			file = page
		} else {
			file = path.Join(path.Dir(page), file)
		}
		if file == "." || strings.HasSuffix(to, "/") {
			file = path.Join(file, "index.html")
		}
		if _, err := fs.Stat(s.site, file); err != nil {
			found = append(found, to+" leads nowhere")
		} else if id != "" && path.Ext(file) == ".html" && !s.has(file, id) {
			found = append(found, to+" leads to no heading")
		}
	}
	return found
}

// has reports whether a page has an anchor.
func (s shown) has(page, id string) bool {
	if s.ids[page] == nil {
		s.ids[page] = map[string]bool{}
		text, _ := fs.ReadFile(s.site, page)
		for _, m := range anchor.FindAllStringSubmatch(string(text), -1) {
			s.ids[page][html.UnescapeString(m[1])] = true
		}
	}
	return s.ids[page][id]
}
