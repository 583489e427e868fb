package padlockweb

import (
	"bytes"
	"flag"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

var update = flag.Bool("update", false, "write the pages of testdata")

// days is a distance from now that the pages show as "3 days", so the pages do not depend on the
// time at which the test runs.
const days = 75 * time.Hour

var past = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// injected is a text that would become a part of the page if it was not escaped.
const injected = `</td><script>alert("1 & '2'")</script>`

func goldenHolds() []sampler.Hold {
	return []sampler.Hold{
		{Name: "a b", Slot: -1, Fence: 7, Hold: padlock.Hold{Holder: driver.Holder{Host: "web-3" + injected, PID: 41, Label: "job " + injected}, Since: past, Until: time.Now().Add(days)}, Held: days},
		{Name: "a b" + fast.SlotName("", 2), Slot: 2, Fence: 0, Hold: padlock.Hold{Holder: driver.Holder{PID: 9}, Foreign: true, Shared: true}, Held: 90 * time.Second, AtLeast: true, Missed: 3},
		{Name: "c", Slot: -1, Hold: padlock.Hold{Cooling: true, Until: time.Now().Add(days)}},
	}
}

func goldenNames() []*sampler.Name {
	holds := goldenHolds()
	return []*sampler.Name{
		{
			Name: "a b", Path: "/run/a b", State: sampler.Held, Holds: holds, Fence: 7, Waiters: 2, WaitSince: time.Now().Add(-days),
			Asked: &padlock.Question{Name: "a b", Fence: 7, Reason: "deploy " + injected, By: padlock.Holder{Host: "ops" + injected, PID: 3}, At: past},
			Stuck: []sampler.Reason{sampler.Long, sampler.PastEnd}, Figures: sampler.Figures{Grants: 1, Missed: 2, Expired: 1},
			Usual: sampler.Times{Count: 5, P50: time.Second, P95: 2 * time.Second, P99: 3 * time.Second, Max: time.Hour},
			Ended: []sampler.Ended{
				{Name: "a b", Slot: -1, Host: "web-4", PID: 5, Label: injected, Fence: 6, End: past, Held: time.Minute, How: sampler.Released},
				{Name: "a b", Slot: -1, Foreign: true, End: past, Held: -1},
			},
		},
		{Name: injected, State: sampler.Free, Waiters: -1},
		{Path: "/run/" + injected, State: sampler.Unknown, Why: injected, Waiters: 0, Holds: holds[2:]},
	}
}

func goldenContent(kind string) *content {
	c := &content{Query: query{Kind: kind, name: injected, Since: injected, Filter: injected}, Taken: past, Cost: "One look."}
	for _, n := range goldenNames() {
		c.Rows = append(c.Rows, (&visitor{}).newRow(n, query{}))
	}
	c.Totals = sum(c.Rows)
	c.Caption, c.Nothing, c.More = injected, injected, 4
	c.Trouble, c.Partial = injected, injected
	c.One, c.OneSummary, c.MayBreak, c.NoRuns = &c.Rows[0], "It is held.", true, injected
	c.Runs = []run{{Began: past, Outcome: history.Success, Detail: injected, Also: injected, Waited: "1 s", Took: injected, Host: injected}, {Outcome: history.Failure}}
	c.Chart = &chart{Text: injected, Steps: []chartStep{
		{At: 0, Width: 1, Title: injected, Unwatched: true}, {At: 1, Title: "00:10 UTC", Held: 100, Waiting: 50, Lost: true},
	}}
	for _, level := range []history.Level{history.LevelFailed, history.LevelOverdue, history.LevelGood} {
		c.Jobs = append(c.Jobs, jobRow{
			Job: &history.Job{Summary: history.Summary{Name: injected}, Level: level}, Key: "j" + string(level), Title: injected, Link: c.Query.nameLink(injected),
			State: string(level), Run: c.Runs[0], Usual: "1 s", Slow: true, Held: goldenHolds(),
		})
	}
	c.Jobs[0].LastSuccess = &history.Run{Start: past}
	c.Jobs[2].State, c.Jobs[2].Why, c.UsualRun = "stuck", injected, "28 s"
	c.Jobs[1].Due, c.Jobs[1].Held = past, nil
	return c
}

func goldenTarget() *target {
	return &target{
		row: row{Name: &sampler.Name{Name: "a", Fence: 7, Holds: goldenHolds()}, Title: injected}, Plain: injected,
	}
}

// The pages are those of testdata. To accept a change, run the test with -args -update.
func TestGoldenPages(t *testing.T) {
	small := &content{Title: injected, Problem: injected, Good: injected, Reason: injected, Target: goldenTarget()}
	small.One = &small.Target.row
	empty := &content{Query: query{Kind: "table"}, Nothing: "Nothing is held.", Caption: "Names"}
	free := (&visitor{}).newRow(&sampler.Name{Name: "free", State: sampler.Free}, query{})
	first, stranger := &content{
		Title: injected, Live: "events?n=" + injected, Query: query{Filter: injected}, Place: injected, Token: injected, Reader: true, HasJobs: true,
	}, &content{Title: "Log in", CanLogIn: true}
	first.Body, stranger.Body = "<h1>Body</h1>", "<h1>Body</h1>"
	for file, page := range map[string]template.HTML{
		"table": render("table", goldenContent("table")),
		"name":  render("name", goldenContent("name")), "jobs": render("jobs", goldenContent("jobs")), "table-empty": render("table", empty),
		"name-free": render("name", &content{Query: query{Kind: "name", name: "free"}, One: &free, OneSummary: "It is free."}),
		"login":     render("login", small), "login-first": render("login", &content{}), "message": render("message", small),
		"break": render("break", small), "layout": render("layout", first), "layout-stranger": render("layout", stranger),
	} {
		text := inLines([]byte(page))
		file := filepath.Join("testdata", file+".html")
		if *update {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if bytes.Contains(text, []byte("<script>")) || bytes.Contains(text, []byte("</td><")) {
			t.Errorf("%s has markup of a text: %s", file, text)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, want) {
			t.Errorf("the page is not %s: %s", file, text)
		}
	}
}

var between = regexp.MustCompile(`>\s*\n\s*<|><`)

// inLines puts each tag that follows another one on a line of its own.
func inLines(page []byte) []byte {
	return append(bytes.TrimSpace(between.ReplaceAll(page, []byte(">\n<"))), '\n')
}

// The steps of a day are in the picture, and in the text.
func TestChartOfADay(t *testing.T) {
	d := sampler.Day{Start: past, Steps: make([]sampler.Step, sampler.DaySteps)}
	full := sampler.Step{Watched: sampler.DayStep, Held: sampler.DayStep, Waiters: 4}
	d.Steps[5], d.Steps[6], d.Steps[7] = full, full, sampler.Step{Watched: sampler.DayStep, Held: sampler.DayStep / 2, Waiters: 2, Lost: 1}
	c := newChart(d)
	var steps []string
	for _, s := range c.Steps {
		steps = append(steps, fmt.Sprint(s.At, s.Width, s.Held, s.Waiting, s.Lost, s.Unwatched))
	}
	if got, want := strings.Join(steps, "; "), "0 5 0 0 false true; 5 1 100 100 false false; 6 1 100 100 false false; 7 1 50 50 true false; 8 136 0 0 false true"; got != want {
		t.Errorf("the steps are %s, want %s", got, want)
	}
	lost := past.Add(7*sampler.DayStep).UTC().Format("15:04") + " UTC"
	if want := "This page saw it held for 25 min in the last 24 hours; at most 4 callers waited; 1 hold was lost, the last one at about " + lost + ", and did not watch for 23 h"; !strings.HasPrefix(c.Text, want) {
		t.Errorf("the text is %q, want %q", c.Text, want)
	}
	if title := c.Steps[3].Title; title != lost+", held for 5 min, 2 waiting, 1 lost" {
		t.Errorf("the third step is %q", title)
	}
}
