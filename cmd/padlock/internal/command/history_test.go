package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/open"
)

// silent is a store that cannot be reached. It keeps no history.
type silent struct {
	driver.Store
	driver.Admin
}

func (silent) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, driver.ErrUnavailable
}

func (silent) List(context.Context, string) ([]driver.State, error) {
	return nil, driver.ErrUnavailable
}

// If the store cannot say whether a run without an end is going on, the history says that it is not
// complete.
func TestHistoryWithSilentStore(t *testing.T) {
	t.Parallel()
	log := history.Open(t.TempDir(), "", nil)
	start := time.Now().Add(-time.Minute)
	w := log.Writer()
	w.Put(history.Run{Name: "nightly", ID: history.NewID(start, false), Host: "web-3", PID: 41, Start: start, Slot: -1})
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(silent{Store: store})
	defer l.Close(t.Context())
	a := &app{}
	var page bytes.Buffer
	if err := a.tellJobs(t.Context(), &page, l, log, &past{failed: true}); !errors.Is(err, padlock.ErrUnavailable) || !strings.Contains(page.String(), "nightly") {
		t.Errorf("all jobs: %v\n%s", err, page.String())
	}
	page.Reset()
	if err := a.tellRuns(t.Context(), &page, l, log, "nightly", &past{}); !errors.Is(err, padlock.ErrUnavailable) || !strings.Contains(page.String(), "web-3") {
		t.Errorf("one job: %v\n%s", err, page.String())
	}
	page.Reset()
	if err := a.tellJobs(t.Context(), &page, nil, log, &past{}); err != nil {
		t.Errorf("without a store: %v", err)
	}
	ended := history.Open(t.TempDir(), "", nil)
	w = ended.Writer()
	w.Put(history.Run{Name: "weekly", ID: history.NewID(start, false), Host: "web-3", PID: 41, Start: start, End: start, Slot: -1})
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	page.Reset()
	if err := a.tellJobs(t.Context(), &page, l, ended, &past{}); !errors.Is(err, padlock.ErrUnavailable) || !strings.Contains(page.String(), "weekly") {
		t.Errorf("who holds the name now is not known: %v\n%s", err, page.String())
	}
}

// In JSON each run is a line of its own. So -n counts runs, and --host leaves out the runs that
// other hosts skipped at the same start.
func TestHistoryLinesOfJSON(t *testing.T) {
	t.Parallel()
	log := history.Open(t.TempDir(), "", nil)
	for night := range 3 {
		start := time.Now().Add(-time.Duration(night) * 24 * time.Hour)
		for i, host := range []string{"web-1", "web-2", "web-3"} {
			w := log.Writer()
			at := start.Add(time.Duration(i) * time.Second)
			w.Put(history.Run{Name: "nightly", ID: history.NewID(at, i > 0), Host: host, PID: 41, Start: at, End: at, Slot: -1, Skipped: i > 0})
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, set := range map[string]past{
		"web-3 web-2 web-1 web-3": {most: 4}, "web-2 web-2 web-2": {host: "web-2"}, "web-1": {host: "web-1", most: 1},
	} {
		var page bytes.Buffer
		if err := (&app{json: true}).tellRuns(t.Context(), &page, nil, log, "nightly", &set); err != nil {
			t.Fatal(err)
		}
		var hosts []string
		for line := range bytes.Lines(page.Bytes()) {
			var r struct{ Host string }
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, r.Host)
		}
		if got := strings.Join(hosts, " "); got != want {
			t.Errorf("%+v: the runs are on %q, want %q", set, got, want)
		}
	}
}
