package padlockweb_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// ownRun records a run of this process that began at the time and has no end.
func ownRun(t *testing.T, past *history.Log, name string, slot int, start time.Time) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	record(t, past, history.Run{Name: name, Host: host, PID: os.Getpid(), Start: start, Slot: slot})
}

// A run is running even if it began after the last sample.
func TestRunsAfterTheSample(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.History(past), padlockweb.ReadWithoutToken())
	record(t, past, history.Run{Name: "next", Host: "web-9", PID: 7, Start: time.Now().Add(-time.Hour), End: time.Now(), Slot: -1})
	before := driver.Request{Name: "next", Token: driver.TokenOf("web-9"), TTL: 30 * time.Second, Holder: driver.Holder{Host: "web-9", PID: 7}}
	if _, err := s.store.Acquire(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s.sample()
	if _, err := s.store.Release(t.Context(), before.Name, before.Token.Text(), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"next", "new"} {
		if _, err := s.locker.TryAcquire(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		ownRun(t, past, name, -1, time.Now())
	}
	if got := strings.Join(jobsOn(s.get("jobs").text), " "); got != "next:running new:running" && got != "new:running next:running" {
		t.Errorf("the jobs are %q", got)
	}
}

// The sampler says nothing about names without its prefix, and nothing about slots if the store
// does not list them. So the page asks the store.
func TestRunsThatNoSampleShows(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSampledSite(t, []sampler.Option{sampler.Prefix("shop/")}, padlockweb.History(past), padlockweb.ReadWithoutToken())
	s.lock("import")
	if _, err := s.locker.TryAcquire(t.Context(), "encode", padlock.Slots(2)); err != nil {
		t.Fatal(err)
	}
	ownRun(t, past, "import", -1, time.Now().Add(-time.Hour))
	ownRun(t, past, "encode", 0, time.Now().Add(-2*time.Hour))
	ownRun(t, past, "gone", -1, time.Now().Add(-3*time.Hour))
	if got := strings.Join(jobsOn(s.get("jobs").text), " "); got != "gone:failed import:running encode:running" {
		t.Errorf("the jobs are %q", got)
	}
}

// mute is a store that cannot tell what is held.
type mute struct{ *memstore.Store }

func (mute) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, driver.ErrUnavailable
}

func (mute) List(context.Context, string) ([]driver.State, error) {
	return nil, driver.ErrUnavailable
}

// If the store cannot be asked, the pages say that a job without an end may be running.
func TestRunsOfSilentStore(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	locker := padlock.New(mute{memstore.New()})
	defer locker.Close(context.WithoutCancel(t.Context()))
	watcher := sampler.New(locker)
	web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.History(past), padlockweb.ReadWithoutToken())
	defer web.Close()
	ownRun(t, past, "import", -1, time.Now().Add(-time.Hour))
	_, _ = watcher.Sample(t.Context()) // the snapshot has the error
	page := func(path string) string {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/"+path, nil))
		return w.Body.String()
	}
	if text := page("jobs"); !strings.Contains(text, "some may be running") || len(jobsOn(text)) != 1 {
		t.Errorf("the page of jobs is %s", text)
	}
	if text := page("name?n=import"); !strings.Contains(text, "some may be running") {
		t.Errorf("the page of the name is %s", text)
	}
}

// A job whose lock is stuck needs a look, even if its last recorded run was a success. The page of
// the name tells how long the recorded runs took, though no hold has ended since the page began to
// look.
func TestJobWhoseLockIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := history.Open(t.TempDir(), "", nil)
		store := memstore.New()
		locker := padlock.New(store)
		defer locker.Close(t.Context())
		watcher := sampler.New(locker)
		web := padlockweb.Handler(locker, padlockweb.Sampler(watcher), padlockweb.History(past), padlockweb.ReadWithoutToken())
		defer web.Close()
		for _, name := range []string{"deploy", "report"} {
			for ago := range 2 {
				start := time.Now().Add(-time.Duration(ago+1) * time.Hour)
				record(t, past, history.Run{Name: name, Host: "web-3", Start: start, End: start.Add(28 * time.Second), Slot: -1})
			}
		}
		held := driver.Request{Name: "deploy", Token: driver.TokenOf("web-9"), TTL: 50 * time.Second, Holder: driver.Holder{Host: "web-9", PID: 7, Plan: 5 * time.Second}}
		if _, err := store.Acquire(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second)
		if _, err := watcher.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		page := func(path string) string {
			w := httptest.NewRecorder()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/"+path, nil))
			return w.Body.String()
		}
		text := page("jobs")
		if got := strings.Join(jobsOn(text), " "); got != "deploy:stuck report:ok" || !strings.Contains(text, "2 jobs, 1 needs a look") || !strings.Contains(text, string(sampler.PastEnd)) {
			t.Errorf("the jobs are %q on the page %s", got, text)
		}
		if got := strings.Join(jobsOn(page("jobs?q=stuck")), " "); got != "deploy:stuck" {
			t.Errorf("the filter finds %q", got)
		}
		if text := page("name?n=deploy"); !strings.Contains(text, "recorded runs took 28 s") {
			t.Errorf("the page of the name lacks how long its runs took: %s", text)
		}
	})
}
