package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	onePage = "# A page\n\n[b](b.md#part) [code](../x.go)\n\n![chart](images/c.svg)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n# no heading\n```\n"
	oneHTML = `<main><h1 id="a-page">A page</h1><p><a href="b.html#part">b</a> <a href="https://github.com/padlock-go/padlock/blob/main/x.go">code</a></p>
<img src="images/c.svg" alt="chart"><table><tr><td>1 2</td></tr></table><pre><code># no heading
</code></pre></main>`
	otherHTML = `<main><h1 id="b">B</h1><h2 id="part">Part</h2></main>`
)

// TestCheck takes a good site, and then changes one thing at a time.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ change, to, want string }{
		{"1 2", "1 2", ""},
		{"1 2", "1 ** 2", `docs/a.html: a reader sees markup: "** 2"`},
		{"b.html#part", "c.html#part", "docs/a.html: c.html#part leads nowhere"},
		{"b.html#part", "b.html#parts", "docs/a.html: b.html#parts leads to no heading"},
		{"main/x.go", "main/y.go", "docs/a.html: https://github.com/padlock-go/padlock/blob/main/y.go leads to no file of the tree"},
		{"images/c.svg", "c.svg", "docs/a.html: c.svg leads nowhere"},
		{"<table>", "", "docs/a.html: 0 tables of 1"},
		{"<pre>", "", "docs/a.html: 0 code blocks of 1"},
		{"h1", "p", "docs/a.html: 0 headings of 1"},
		{"<img", "<b", "docs/a.html: 0 images of 1"},
		{"<p>", "<p>text\n- item", `docs/a.html: a reader sees markup: "- item"`},
		{"<p>", "<p>[x](y.md)", `docs/a.html: a reader sees markup: "](y.md)"`},
	} {
		found := checkOne(t, strings.ReplaceAll(oneHTML, c.change, c.to), `[{"url": "/docs/a.html"}, {"url": "/docs/b.html"}]`)
		if got := strings.Join(found, "; "); got != c.want {
			t.Errorf("%s → %s: found %q, want %q", c.change, c.to, got, c.want)
		}
	}
	if found := checkOne(t, oneHTML, `[{"url": "/docs/a.html"}]`); !slices.Equal(found, []string{"docs/b.html: the search does not know the page"}) {
		t.Errorf("found %q", found)
	}
}

func checkOne(t *testing.T, page, index string) []string {
	t.Helper()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	pages := fstest.MapFS{"docs/a.md": file(onePage), "docs/b.md": file("# B\n\n## Part\n")}
	site := fstest.MapFS{
		"index.json": file(index), "docs/images/c.svg": file(""), "docs/a.html": file(page), "docs/b.html": file(otherHTML),
	}
	found, count, err := check(pages, site, fstest.MapFS{"x.go": file("")})
	if err != nil || count != 2 {
		t.Fatal(count, err)
	}
	return found
}

func TestMissing(t *testing.T) {
	pages := fstest.MapFS{"README.md": {Data: []byte("# A\n")}, "docs/README.md": {Data: []byte("# B\n")}}
	site := fstest.MapFS{"index.html": {Data: []byte("<h1>A</h1>")}, "index.json": {Data: []byte(`"/index.html"`)}}
	found, _, err := check(pages, site, fstest.MapFS{})
	if err != nil || !slices.Equal(found, []string{"docs/index.html: the page is missing"}) {
		t.Errorf("found %q, %v", found, err)
	}
}
