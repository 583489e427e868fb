package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/padlock-go/padlock/internal/integration/browser"
	"github.com/padlock-go/padlock/internal/printable"
)

// hostile are names and labels that a page must show as they are.
var hostile = []string{
	`<script>window.ran = 1</script>`, `"><img src=x onerror="window.ran = 1">`, `' onmouseover='window.ran = 1' x='`, `javascript:window.ran=1`,
	`</title></div></main><svg onload=window.ran=1>`, `&lt;b&gt; &amp;#34;`, "two\nlines\r\n\r\nevent: bye", "\x1b]0;x\a", "\u202egpj.exe", "\xff\xfe", `a"b\c`,
}

// facts is what a tab knows about its page: the names that it shows, whether a script of a name
// ran, and what such a name could have added.
const facts = `({
	Names: Array.from(document.querySelectorAll("tr[data-name] th"), e => e.innerText).sort(),
	Data: Array.from(document.querySelectorAll("tr[data-name]"), e => e.dataset.name).sort(),
	Labels: Array.from(document.querySelectorAll("tr[data-name] td .why"), e => e.textContent).sort(),
	Title: document.title, Heading: document.querySelector("h1").textContent, Filter: document.getElementById("filter").value,
	Ran: window.ran === 1,
	Added: document.querySelectorAll(":not(.chart) > svg, b, script:not([src='live.js']), img:not([src='icon.svg'])").length +
		Array.from(document.querySelectorAll("*")).filter(e => Array.from(e.attributes).some(a => a.name.startsWith("on"))).length,
	Away: Array.from(document.querySelectorAll("[href], [src], [action]"), e => new URL(e.getAttribute("href") ?? e.getAttribute("src") ?? e.getAttribute("action"), location.href))
		.filter(u => u.origin !== location.origin).map(String),
})`

type pageFacts struct {
	Names, Data, Labels    []string
	Title, Heading, Filter string
	Ran                    bool
	Added                  int
	Away                   []string
}

// harmless reads the facts of the page that the tab shows, and fails if a text of others became a
// part of the page.
func harmless(t *testing.T, tab *browser.Tab) (f pageFacts) {
	t.Helper()
	data, err := json.Marshal(tab.Eval(facts))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	if f.Ran || f.Added != 0 || len(f.Away) != 0 {
		t.Errorf("%q: a script ran: %v; %d elements or handlers more; links to %q", f.Title, f.Ran, f.Added, f.Away)
	}
	return f
}

// TestHostileTexts: a real browser shows names, labels and filters of others as they are, in the
// table, in the events that replace it, in fields and in the title, and makes no links of them.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	var shown, labels []string
	for _, name := range hostile {
		p.run("--label", "job "+name, name)
		shown = append(shown, printable.Name(name))
		labels = append(labels, printable.Name("job "+name))
	}
	slices.Sort(shown)
	slices.Sort(labels)
	chromium := browser.Start(t)
	tab := chromium.Open(s.url)
	all := fmt.Sprintf("document.querySelectorAll(\"tr[data-name]\").length === %d", len(hostile))
	tab.Until(isLive + " && " + all)
	for range 2 { // the second time, an event has changed the table
		if f := harmless(t, tab); !slices.Equal(f.Names, shown) || !slices.Equal(f.Data, shown) || !slices.Equal(f.Labels, labels) {
			t.Errorf("the table shows\n%q\n%q\n%q, want\n%q\n%q", f.Names, f.Data, f.Labels, shown, labels)
		}
		tab.Eval(`window.before = document.querySelector("footer time").dateTime`)
		tab.Until(`document.querySelector("footer time").dateTime !== window.before`)
	}
	for _, name := range hostile {
		text := printable.Name(name)
		tab.Go(s.url + "name?" + url.Values{"n": {name}, "q": {name}}.Encode())
		tab.Until(isLive + ` && document.body.innerText.includes("It is held by 1 holder.")`)
		if f := harmless(t, tab); f.Heading != text || f.Title != text+" · padlock" || f.Filter != text {
			t.Errorf("the page of %q has the heading %q, the title %q and the filter %q", name, f.Heading, f.Title, f.Filter)
		}
	}
	if said := chromium.Complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}
