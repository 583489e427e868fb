package padlockweb_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockweb"
)

// night records a run on web-3 for each of the last nights, which two other hosts skipped. The last
// run has the exit status.
func night(t *testing.T, past *history.Log, name string, ago time.Duration, exit int) {
	t.Helper()
	for i := range 6 {
		start := time.Now().Add(-ago - time.Duration(i)*24*time.Hour)
		status := 0
		if i == 0 {
			status = exit
		}
		record(t, past, history.Run{Name: name, Host: "web-3", PID: 41, Start: start, End: start.Add(41 * time.Second), Exit: status, Slot: -1})
		for _, host := range []string{"web-1", "web-2"} {
			record(t, past, history.Run{
				Name: name, Host: host, PID: 7, Start: start.Add(time.Second), Skipped: true, Reason: "held", Slot: -1,
				By: []driver.Holder{{Host: "web-3", PID: 41}},
			})
		}
	}
}

// jobsOn returns the names of the jobs that a page shows, in their order, with their levels.
func jobsOn(text string) (all []string) {
	for _, found := range regexp.MustCompile(`data-level="([^"]*)" data-job="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, found[2]+":"+found[1])
	}
	return all
}

// The page of jobs answers what ran last night: failed and overdue jobs first, the hosts that were
// skipped in one line, and who holds the job now.
func TestJobs(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.History(past), padlockweb.ReadWithoutToken())
	night(t, past, "backup", 3*time.Hour, 3)
	night(t, past, "cleanup", 40*time.Hour, 0)
	night(t, past, "report", 2*time.Hour, 0)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	record(t, past, history.Run{Name: "import", Host: host, PID: os.Getpid(), Start: time.Now(), Slot: -1})
	record(t, past, history.Run{Name: "killed", Host: "web-9", Start: time.Now().Add(-time.Hour), Slot: -1})
	s.lock("import")
	for path, want := range map[string]string{
		"jobs":                                 "killed:failed backup:failed cleanup:overdue import:running report:ok",
		"jobs?failed=1":                        "killed:failed backup:failed cleanup:overdue",
		"jobs?q=web-9":                         "killed:failed",
		"jobs?q=EXIT%20status":                 "backup:failed",
		"jobs?q=nothing":                       "",
		"jobs?since=12h":                       "killed:failed backup:failed import:running report:ok",
		"jobs?since=yesterday&failed=yes&sort": "killed:failed backup:failed cleanup:overdue import:running report:ok",
	} {
		if got := strings.Join(jobsOn(s.get(path).text), " "); got != want {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
	text := s.get("jobs").text
	for _, want := range []string{
		"5 jobs, 3 need a look, 1 is running.", "exit status 3", "skipped on web-1, web-2", ">41 s<", "job of import", "last success: <time", "none is known", "since <time",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	text = s.get("name?n=report").text
	if n := strings.Count(text, "badge success"); n != 6 || strings.Contains(text, "badge skipped") || strings.Count(text, "skipped on web-1, web-2") != 6 {
		t.Errorf("the page of the name has %d lines of runs, want one a night: %.5000s", n, text[strings.Index(text, "Recorded runs"):])
	}
}

// Each link of the page of jobs keeps the other filters, and so do the way to a name and back, and
// the form.
func TestLinksKeepTheFilter(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.History(past), padlockweb.ReadWithoutToken())
	night(t, past, "backup & more", time.Hour, 1)
	text := s.get("jobs?" + form("q", "backup", "since", "24h", "failed", "1")).text
	links := map[string]url.Values{}
	for _, found := range regexp.MustCompile(`href="([^"]*)"[^>]*>([^<]*)</a>`).FindAllStringSubmatch(text, -1) {
		to, err := url.Parse(html.UnescapeString(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		links[found[2]] = to.Query()
	}
	for title, want := range map[string]string{
		"All": form("q", "backup", "since", "24h"), "7 days": form("q", "backup", "since", "168h", "failed", "1"),
		"Locks":             form("q", "backup", "since", "24h", "failed", "1"),
		"backup &amp; more": form("n", "backup & more", "q", "backup", "since", "24h", "failed", "1"),
	} {
		if got := links[title].Encode(); got != want {
			t.Errorf("%s leads to %q, want %q", title, got, want)
		}
	}
	for _, field := range []string{`name="since" value="24h"`, `name="failed" value="1"`, `action="jobs"`} {
		if !strings.Contains(text, field) {
			t.Errorf("the form lacks %s", field)
		}
	}
	text = s.get("name?" + links["backup &amp; more"].Encode()).text
	if !strings.Contains(text, `<a href="jobs?failed=1&amp;q=backup&amp;since=24h">Jobs</a>`) {
		t.Errorf("the way back has lost the filter: %s", text)
	}
	s.lock("other")
	text = s.get("?q=oth").text
	if !strings.Contains(text, `href="name?n=other&amp;q=oth"`) || !strings.Contains(text, `<a href="jobs?q=oth">Jobs</a>`) {
		t.Errorf("the table has lost the filter: %s", text)
	}
	if text = s.get("name?n=other&q=oth").text; !strings.Contains(text, `<a href="./?q=oth">Locks</a>`) {
		t.Errorf("the way back to the table has lost the filter: %s", text)
	}
}

// Without a history there are no jobs, and no links to them.
func TestNoJobs(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	if a := s.get("jobs"); a.StatusCode != http.StatusNotFound {
		t.Errorf("/jobs is %d", a.StatusCode)
	}
	if text := s.get("?q=x").text; strings.Contains(text, "jobs?") {
		t.Errorf("the table links jobs: %s", text)
	}
	if _, next := s.events("view=jobs"); true {
		if event, data := next(); event != "locks" || strings.Contains(data, "data-job") {
			t.Errorf("a stream of jobs: %s %s", event, data)
		}
	}
}

// The page of a name has a picture of its last day, which a text also tells.
func TestChart(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	text := s.get("name?n=nightly").text
	for _, want := range []string{
		"This page did not see it held in the last 24 hours, and did not watch for 23 h",
		`<svg role="img" aria-labelledby="chart-title" aria-describedby="chart-text"`, `<title id="chart-title">`, `<p id="chart-text"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart lacks %q: %.3000s", want, text)
		}
	}
	if n := strings.Count(text, `<rect class="unwatched"`); n != 1 {
		t.Errorf("%d times are marked as not watched", n)
	}
}
