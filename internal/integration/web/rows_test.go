package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/integration/browser"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/stores/filestore"
)

// TestRowsStay: an update changes only the parts that are new. The selection of the visitor stays,
// and so do the focus, the scroll bar and the columns.
func TestRowsStay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	for _, name := range []string{"a", "b", "c"} {
		p.run("--label", "report.sh", name)
	}
	tab := browser.Start(t).Open(s.url)
	tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1200, "height": 260, "deviceScaleFactor": 1, "mobile": false})
	tab.Until(isLive + " && " + shows("a") + " && " + shows("b") + " && " + shows("c"))
	tab.Eval(`
		row = document.querySelector("tr[data-name=b]");
		row.querySelector("th a").focus();
		getSelection().selectAllChildren(row.querySelector("td.holder a"));
		scrollTo(0, 120);
		columns = () => Array.from(document.querySelectorAll("thead th"), e => e.getBoundingClientRect().left).join();
		before = [columns(), getSelection().toString(), scrollY, document.activeElement.textContent].join("|")`)
	tab.Eval(`age = row.querySelector("td.held").textContent`)
	other := p.run("--label", "with a long label too", "a-much-longer-name-than-the-others-have")
	tab.Until(shows("a-much-longer-name-than-the-others-have") + ` && row.querySelector("td.held").textContent !== age`)
	other.end(t)
	tab.Until(hides("a-much-longer-name-than-the-others-have"))
	tab.Eval(`page = region.innerHTML; show("<p class=note>a note</p>\n" + page); show(page)`)
	const after = `[columns(), getSelection().toString(), scrollY, document.activeElement.textContent].join("|")`
	if before, now := tab.Eval("before"), tab.Eval(after); before != now || tab.Eval("scrollY") == 0. {
		t.Errorf("before the updates the page has %q, then %q", before, now)
	}
	if tab.Eval(`row.isConnected && document.querySelector("tr[data-name=b]") === row && document.activeElement === row.querySelector("th a")`) != true {
		t.Error("the row was replaced, or has lost the focus")
	}
}

// TestOneLine: on a usual screen a row with a short label has one line. The label is as large as the
// holder: for a client of the HTTP API, it says who has the lock.
func TestOneLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	p.run("--at-most", "290", "planned")
	p.run("--at-most", "290", "--label", "report.sh", "labelled")
	tab := browser.Start(t).Open(s.url)
	tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": false})
	tab.Until(isLive + " && " + shows("planned") + " && " + shows("labelled"))
	const lines = `(e => { r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length })(document.querySelector("tr[data-name=planned] td.until"))`
	if n, text := tab.Eval(lines), tab.Eval(`document.querySelector("tr[data-name=planned] td.until").textContent`); n != 1. {
		t.Errorf("%q has %v lines", text, n)
	}
	if height := tab.Eval(`document.querySelector("tr[data-name=planned]").getBoundingClientRect().height`).(float64); height > 45 {
		t.Errorf("a row is %v high", height)
	}
	const sizes = `["a", ".why"].map(e => getComputedStyle(document.querySelector("tr[data-name=labelled] td.holder " + e)).fontSize)`
	if same := tab.Eval(sizes + `.every((size, _, all) => size === all[0])`); same != true {
		t.Errorf("the sizes of holder and label: %v", tab.Eval(sizes+".join()"))
	}
}

// TestFiftyNames: fifty names stand on two screens, also if names and labels are long. Over HTTP, the
// client stands where a holder stands, and the server after it.
func TestFiftyNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve("--api")
	ask := func(name string, token, wait int) {
		body := fmt.Sprintf(`{"name":%q,"token":"%020d","ttl_ms":30000,"wait_ms":%d,"label":"a-rather-long-script-name.sh web-9/77"}`, name, token, wait)
		reply, err := http.Post(s.url+"v1/acquire", "application/json", strings.NewReader(body))
		if err != nil {
			return // the end of the test ends those that wait
		}
		reply.Body.Close()
		if wait == 0 && reply.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, reply.Status)
		}
	}
	for i := range 50 {
		ask(fmt.Sprintf("import:customers:%s:%02d", strings.Repeat("long-", i/5), i), i, 0)
	}
	for i := range 2 {
		go ask("import:customers::00", 50+i, 20000)
	}
	tab := browser.Start(t).Open(s.url)
	tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": false})
	tab.Until(isLive + ` && document.querySelectorAll("tbody tr").length === 50 && document.querySelector("tr[data-level=hot]") !== null`)
	if high := tab.Eval("document.documentElement.scrollHeight").(float64); high > 1800 {
		t.Errorf("the page of fifty names is %v high, and two screens have 1800", high)
	}
	if heights := tab.Eval(`Array.from(new Set(Array.from(document.querySelectorAll("tbody tr"), e => e.getBoundingClientRect().height))).join()`); strings.Contains(heights.(string), ",") {
		t.Errorf("the rows have the heights %v", heights)
	}
	holder := tab.Eval(`document.querySelector("tr[data-level=hot] td.holder").textContent`).(string)
	if !strings.HasPrefix(holder, "web-9:77 a-rather-long-script-name.sh (127.0.0.1) over ") {
		t.Errorf("the holder is %q", holder)
	}
	if n := tab.Eval(`document.querySelector("tr[data-level=hot] td.waiting").firstChild.textContent`); n != "2" {
		t.Errorf("%v wait, want 2", n)
	}
}

// TestColoursAndTimes: two waiters are no reason to look, so they give a row no colour. Times are
// those of the visitor, with UTC in the title, and a phone has two lines for a lock.
func TestColoursAndTimes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	for range 3 {
		p.run("--label", "bill.sh", "invoice:42")
	}
	tab := browser.Start(t).Open(s.url)
	tab.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "Asia/Tokyo"})
	tab.Go(s.url)
	tab.Until(isLive + ` && document.querySelector("tr[data-level=hot]") !== null`)
	if colour := tab.Eval(`getComputedStyle(document.querySelector("tr[data-level=hot]")).backgroundColor`); colour != "rgba(0, 0, 0, 0)" {
		t.Errorf("a name with two waiters has the colour %v", colour)
	}
	tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": true})
	tab.Until(`innerWidth === 390`)
	if height := tab.Eval(`document.querySelector("tr[data-level=hot]").getBoundingClientRect().height`).(float64); height > 75 {
		t.Errorf("on a phone the row is %v high, want two lines", height)
	}
	tab.Go(s.url + "name?n=invoice:42")
	tab.Until(isLive)
	const times = `Array.from(document.querySelectorAll("td time"), e => (Date.parse(e.textContent.replace(" ", "T") + "+09:00") - Date.parse(e.dateTime)) + " " + (e.title === e.dateTime.replace("T", " ").replace("Z", " UTC"))).join()`
	if got := tab.Eval(times); got != "0 true" {
		t.Errorf("the time of the holder, compared with UTC, is %v", got)
	}
	tab.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	tab.Go(s.url + "name?n=invoice:42")
	if text := tab.Eval(`document.querySelector("td time").textContent === document.querySelector("td time").title`); text != true {
		t.Errorf("without scripts the time is not UTC: %v", text)
	}
}

// record writes a run to the history in the store.
func record(t *testing.T, store driver.Store, r history.Run) {
	t.Helper()
	r.ID = history.NewID(r.Start, r.Skipped)
	w := history.Open("", "", store).Writer()
	w.Put(r)
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestJobsInBrowser: an operator finds the job that failed with the keyboard alone. A screen reader
// gets a table and a picture with a text, and nothing is wider than a phone.
func TestJobsInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	store, err := filestore.Open(filepath.Join(p.dir, "locks"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began := time.Now().Add(-time.Hour)
	for name, exit := range map[string]int{"backup": 3, "report": 0, "cleanup": 0} {
		record(t, store, history.Run{Name: name, Host: "web-3", PID: 41, Start: began, End: began.Add(time.Minute), Exit: exit, Slot: -1})
	}
	chromium := browser.Start(t)
	tab := chromium.Open(s.url)
	tab.Until(isLive)
	key := func(name string, code int, text string) {
		for _, kind := range []string{"keyDown", "keyUp"} {
			event := map[string]any{"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code}
			if kind == "keyDown" && text != "" {
				event["text"] = text
			}
			tab.Call("Input.dispatchKeyEvent", event)
		}
	}
	goTo := func(link string) {
		t.Helper()
		for range 40 {
			if tab.Eval("document.activeElement.textContent") == link {
				key("Enter", 13, "\r")
				return
			}
			key("Tab", 9, "")
		}
		t.Fatalf("the keyboard does not reach %s", link)
	}
	goTo("Jobs")
	tab.Until(isLive + ` && document.querySelectorAll("tr[data-job]").length === 3 && document.querySelector("tr[data-job]").dataset.job === "backup"`)
	goTo("Failed or overdue")
	tab.Until(isLive + ` && location.search === "?failed=1" && document.querySelectorAll("tr[data-job]").length === 1`)
	jobsFit(t, tab)
	goTo("backup")
	tab.Until(isLive + ` && document.querySelector("svg title").textContent.startsWith("How long") && document.body.innerText.includes("exit status 3")`)
	if roles := tab.Roles(); roles["image"]+roles["img"] < 1 || roles["unnamed"] > 0 {
		t.Errorf("the page of a name has the roles %v", roles)
	}
	goTo("Jobs")
	tab.Until(isLive + ` && location.search === "?failed=1"`)
	if said := chromium.Complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}

// jobsFit checks the page of jobs on a phone and on a wide screen.
func jobsFit(t *testing.T, tab *browser.Tab) {
	t.Helper()
	for _, width := range []int{390, 1280} {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false})
		tab.Until(fmt.Sprintf(`innerWidth === %d`, width))
		if over := tab.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over != 0. {
			t.Errorf("the jobs are %v wider than a window of %d", over, width)
		}
		roles := tab.Roles()
		for role, want := range map[string]int{"table": 1, "columnheader": 8, "rowheader": 1, "navigation": 1, "group": 2} {
			if roles[role] < want || roles["unnamed"] > 0 {
				t.Errorf("%d wide: %d of role %s, want %d: %v", width, roles[role], role, want, roles)
			}
		}
	}
}
