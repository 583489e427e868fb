package main

import (
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
