package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	oneHTML = `<main><p><a href="b.html#part">b</a> <a href="https://github.com/padlock-go/padlock/blob/main/x.go">code</a></p>
<img src="images/c.svg" alt="chart"></main>`
	otherHTML = `<main><h1 id="b">B</h1><h2 id="part">Part</h2></main>`
)

// TestCheck takes a good site, and then changes one thing at a time.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ change, to, want string }{
		{"b.html#part", "b.html#part", ""},
		{"b.html#part", "c.html#part", "docs/a.html: c.html#part leads nowhere"},
		{"b.html#part", "b.html#parts", "docs/a.html: b.html#parts leads to no heading"},
		{"main/x.go", "main/y.go", "docs/a.html: https://github.com/padlock-go/padlock/blob/main/y.go leads to no file of the tree"},
		{"images/c.svg", "c.svg", "docs/a.html: c.svg leads nowhere"},
	} {
		file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
		pages := fstest.MapFS{"docs/a.md": file(""), "docs/b.md": file("")}
		site := fstest.MapFS{
			"docs/images/c.svg": file(""), "docs/a.html": file(strings.ReplaceAll(oneHTML, c.change, c.to)), "docs/b.html": file(otherHTML),
		}
		found, count, err := check(pages, site, fstest.MapFS{"x.go": file("")})
		if err != nil || count != 2 {
			t.Fatal(count, err)
		}
		if got := strings.Join(found, "; "); got != c.want {
			t.Errorf("%s → %s: found %q, want %q", c.change, c.to, got, c.want)
		}
	}
}

func TestMissing(t *testing.T) {
	pages := fstest.MapFS{"README.md": {Data: []byte("# A\n")}, "docs/README.md": {Data: []byte("# B\n")}}
	site := fstest.MapFS{"index.html": {Data: []byte("<h1>A</h1>")}}
	found, _, err := check(pages, site, fstest.MapFS{})
	if err != nil || !slices.Equal(found, []string{"docs/index.html: the page is missing"}) {
		t.Errorf("found %q, %v", found, err)
	}
}

// TestSearch wants every page in the index of the search, if the site has one.
func TestSearch(t *testing.T) {
	pages := fstest.MapFS{"docs/a.md": {}, "docs/b.md": {}}
	site := fstest.MapFS{"docs/a.html": {}, "docs/b.html": {}, "search/search_index.json": {Data: []byte(`{"docs":[{"location":"docs/a.html"}]}`)}}
	found, _, err := check(pages, site, fstest.MapFS{})
	if err != nil || !slices.Equal(found, []string{"docs/b.html: the search does not know the page"}) {
		t.Errorf("found %q, %v", found, err)
	}
}

// TestForAgents makes the texts for agents of the pages of this tree. What they link is checked when
// the site is built.
func TestForAgents(t *testing.T) {
	texts, err := forAgents(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"llms.txt": {"# padlock\n\n> Locks for Go", "\n## Look up\n", "\n- [redisstore: locks in Redis](docs/stores/redis.html): ",
			"\n- [Shutting down on SIGTERM](docs/shutdown.html)"},
		"coding-agents.md": {"go work init . ../padlock", "\npackage main\n", "| one machine | `filestore` | [files](docs/stores/file.html) |",
			"`padlock.ErrHeld`", "](docs/errors.html#the-holder-in-the-error)"},
	} {
		for _, part := range want {
			if !strings.Contains(texts[name], part) {
				t.Errorf("%s lacks %q:\n%.2000s", name, part, texts[name])
			}
		}
	}
	if n := len(strings.Fields(texts["coding-agents.md"])); n > 2500 {
		t.Errorf("coding-agents.md has %d words, which is not short", n)
	}
	if got := section("# T\n\n## A\na\n### B\nb\n## C\n", "## A"); got != "## A\na\n### B\nb\n" {
		t.Errorf("the section is %q", got)
	}
	if got := onSite("docs/a.md", "../lab/x.go"); got != onGitHub+"lab/x.go" {
		t.Errorf("a file of the tree is %q", got)
	}
}
