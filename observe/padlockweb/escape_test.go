package padlockweb

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// enemies are texts that try to become markup, a script or another address.
func enemies() map[string]string {
	return map[string]string{
		"script": "<script>alert(1)</script>", "end": "</td></table></main><script src=//evil></script>", "quotes": `" onmouseover="alert(1)" x='`,
		"one quote": `' autofocus onfocus=alert(1) '`, "backquote": "`", "entity": "&lt;script&gt;&#34;&quot;", "comment": "--><!--", "section": "]]>",
		"title": "</title></noscript><script>", "scheme": "javascript:alert(1)", "other host": "//evil.example/x?y#z", "path": "../../logout",
		"template": "{{.Place}}{{end}}", "NUL": "a\x00b", "not UTF-8": "\xff\xfe\"<", "right to left": "\u202egnp.exe", "lines": "a\r\ndata: x\n\nevent: bye\n",
		"line separators": "\u2028\u2029", "escape": "\x1b[2J", "long": strings.Repeat(`<b a='">&`, 1<<10),
	}
}

// pagesWith makes every page with the text at each place where a text of others can stand.
func pagesWith(text string) map[string]template.HTML {
	hold := sampler.Hold{Name: text, Slot: -1, Fence: 7, Hold: padlock.Hold{Holder: driver.Holder{Host: text, PID: 1, Label: text}, Until: past, PlannedEnd: past}}
	one := (&visitor{}).newRow(&sampler.Name{
		Name: text, Path: text, State: sampler.Unknown, Why: text, Stuck: []sampler.Reason{sampler.Reason(text)}, Holds: []sampler.Hold{hold, hold},
		Asked: &padlock.Question{Reason: text, By: padlock.Holder{Host: text}},
		Ended: []sampler.Ended{{Host: text, Label: text, How: sampler.How(text)}},
	}, query{})
	nameless := (&visitor{}).newRow(&sampler.Name{Path: text}, query{})
	q := query{Kind: "name", name: text, Filter: text, Failed: true, Since: text}
	job := jobRow{
		Job: &history.Job{Summary: history.Summary{Name: text}, Level: history.LevelFailed}, Key: "j", Title: text, Link: q.nameLink(text), Usual: text, Due: past,
		Run: run{Outcome: history.Outcome(text), Detail: text, Also: text, Took: text, Host: text}, Held: []sampler.Hold{hold, hold},
	}
	t := &target{row: one, Plain: text}
	c := &content{
		Title: text, Problem: text, Good: text, Query: q, Reason: text, Target: t, Live: q.events(), Trouble: text, Partial: text, Cost: text, Taken: past,
		Rows: []row{one, nameless}, Caption: text, Nothing: text, One: &one, OneSummary: text, MayBreak: true, NoRuns: text, Place: text, Token: text, Reader: true,
		Runs:  []run{{Outcome: history.Outcome(text), Detail: text, Also: text, Waited: text, Took: text, Host: text}},
		Chart: &chart{Text: text, Steps: []chartStep{{Title: text, Unwatched: true, Held: 1, Waiting: 1, Lost: true}}},
		Jobs:  []jobRow{job}, HasJobs: true,
	}
	pages := map[string]template.HTML{}
	for _, name := range []string{"table", "name", "break", "login", "message", "layout", "jobs"} {
		pages[name] = render(name, c)
	}
	empty := *c
	empty.Rows = nil
	pages["empty table"] = render("table", &empty)
	return pages
}

// The elements and attributes of a page do not depend on the texts in it, and each link leads to
// the thing with exactly that name.
func TestTextsStayTexts(t *testing.T) {
	want := map[string]string{}
	for name, page := range pagesWith("harmless") {
		want[name], _ = shapeOf(t, string(page))
	}
	if !strings.Contains(want["name"], "<a id class href>") {
		t.Fatalf("the shape of a page lacks its elements: %s", want["name"])
	}
	for what, text := range enemies() {
		for name, page := range pagesWith(text) {
			if !utf8.ValidString(string(page)) || strings.ContainsAny(string(page), "\r\x00") {
				t.Errorf("%s on the page %s: a byte that the text had is on the page", what, name)
			}
			shape, links := shapeOf(t, string(page))
			if shape != want[name] {
				t.Errorf("%s changes the page %s: %.2000s", what, name, shape)
			}
			for _, link := range links {
				checkLink(t, what, text, link)
			}
		}
	}
}

// A long text stays a text too, in tier 2 one of 1 MB.
func TestLongText(t *testing.T) {
	size := 1 << 16
	if server.IsThorough() {
		size = 1 << 20
	}
	text := strings.Repeat(`<b a='">&`, size/9)
	one := (&visitor{}).newRow(&sampler.Name{Name: text, State: sampler.Free}, query{})
	small := (&visitor{}).newRow(&sampler.Name{Name: "a", State: sampler.Free}, query{})
	got, links := shapeOf(t, string(render("table", &content{Rows: []row{one}})))
	if want, _ := shapeOf(t, string(render("table", &content{Rows: []row{small}}))); got != want {
		t.Errorf("the page is %.2000s", got)
	}
	checkLink(t, "a long text", text, links[len(links)-1])
}

// checkLink checks the address of a link on a page with the given text.
func checkLink(t *testing.T, what, text, link string) {
	t.Helper()
	to, err := url.Parse(link)
	if err != nil || to.IsAbs() || to.Host != "" || !map[string]bool{"./": true, "name": true, "break": true, "events": true, "login": true, "logout": true, "style.css": true, "icon.svg": true, "live.js": true, "jobs": true, "api/locks": true, "metrics": true, "": true}[to.Path] {
		t.Errorf("%s makes the link %.200q: %v", what, link, err)
		return
	}
	values, err := url.ParseQuery(to.RawQuery)
	if err != nil {
		t.Errorf("%s makes the link %.200q: %v", what, link, err)
	}
	for key := range values {
		if got := values.Get(key); key != "view" && key != "failed" && key != "from" && key != "since" && got != text {
			t.Errorf("%s: the link %.200q has %s=%.200q", what, link, key, got)
		}
	}
}

// shapeOf returns the names of all elements and attributes of a page, and the addresses on it.
func shapeOf(t *testing.T, page string) (shape string, links []string) {
	t.Helper()
	page = strings.ReplaceAll(strings.TrimPrefix(page, "<!doctype html>"), "\x1b", "ESC") // HTML allows it, XML does not
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var out strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), links
		}
		if err != nil {
			t.Fatalf("the page cannot be read: %v: %.3000s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			out.WriteString("<" + token.Name.Local)
			for _, a := range token.Attr {
				out.WriteString(" " + a.Name.Local)
				switch a.Name.Local {
				case "href", "src", "action", "data-live":
					links = append(links, a.Value)
				}
			}
			out.WriteString(">")
		case xml.EndElement:
			out.WriteString("</" + token.Name.Local + ">")
		case xml.Comment, xml.ProcInst, xml.Directive:
			t.Errorf("the page has %T", token)
		}
	}
}
