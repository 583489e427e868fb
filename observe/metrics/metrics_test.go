package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/observe/metrics"
	"github.com/padlock-go/padlock/stores/memstore"
)

// text returns what m shows.
func text(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("the reply is %d, %q", w.Code, got)
	}
	return w.Body.String()
}

// has checks that m shows each of the lines.
func has(t *testing.T, m *metrics.Metrics, lines ...string) {
	t.Helper()
	all := "\n" + text(t, m)
	for _, line := range lines {
		if !strings.Contains(all, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var near []string
			for l := range strings.Lines(all) {
				if strings.HasPrefix(l, name) {
					near = append(near, l)
				}
			}
			t.Errorf("%s is missing; there are\n%s", line, strings.Join(near[:min(20, len(near))], ""))
		}
	}
}

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		l := padlock.New(memstore.New(), padlock.Observe(m))
		defer l.Close(t.Context())
		a, err := l.Acquire(t.Context(), "invoice:1", padlock.TTL(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		has(t, m, `padlock_locks{store="memory",group="invoice"} 1`)
		if _, err := l.TryAcquire(t.Context(), "invoice:1"); !errors.Is(err, padlock.ErrHeld) {
			t.Fatal(err)
		}
		waiting := make(chan *padlock.Lock)
		go func() {
			k, err := l.Acquire(t.Context(), "invoice:1", padlock.HoldAtMost(2*time.Second))
			if err != nil {
				t.Error(err)
			}
			waiting <- k
		}()
		<-time.After(42 * time.Second)
		has(t, m, `padlock_lock_pending_requests{store="memory",group="invoice"} 1`)
		if err := a.Release(); err != nil {
			t.Error(err)
		}
		<-(<-waiting).Context().Done()
		synctest.Wait()
		renewals := fmt.Sprint(l.Stats().Renewals)
		has(t, m,
			`padlock_locks{store="memory",group="invoice"} 0`,
			`padlock_lock_pending_requests{store="memory",group="invoice"} 0`,
			`padlock_lock_wait_seconds_count{store="memory",group="invoice",mode="exclusive",outcome="acquired"} 2`,
			`padlock_lock_wait_seconds_sum{store="memory",group="invoice",mode="exclusive",outcome="acquired"} 42`,
			`padlock_lock_wait_seconds_bucket{store="memory",group="invoice",mode="exclusive",outcome="acquired",le="0.001"} 1`,
			`padlock_lock_wait_seconds_bucket{store="memory",group="invoice",mode="exclusive",outcome="acquired",le="30"} 1`,
			`padlock_lock_wait_seconds_bucket{store="memory",group="invoice",mode="exclusive",outcome="acquired",le="60"} 2`,
			`padlock_lock_wait_seconds_bucket{store="memory",group="invoice",mode="exclusive",outcome="acquired",le="+Inf"} 2`,
			`padlock_lock_wait_seconds_count{store="memory",group="invoice",mode="exclusive",outcome="held"} 1`,
			`padlock_lock_use_seconds_sum{store="memory",group="invoice",mode="exclusive",outcome="released"} 42`,
			`padlock_lock_use_seconds_sum{store="memory",group="invoice",mode="exclusive",outcome="max_hold"} 2`,
			`padlock_lock_lost_total{store="memory",group="invoice",reason="lost"} 0`,
			`padlock_lock_contended_total{store="memory",group="invoice"} 2`,
			`padlock_lock_hand_overs_total{store="memory",group="invoice",way="queue"} 1`,
			`padlock_store_operation_seconds_count{store="memory",group="invoice",operation="renew"} `+renewals,
			`padlock_lock_renewal_slack_seconds_bucket{store="memory",group="invoice",le="10"} 0`,
			`padlock_lock_renewal_slack_seconds_bucket{store="memory",group="invoice",le="30"} `+renewals,
		)
	})
}

func TestLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		l := padlock.New(memstore.New(), padlock.Observe(m))
		defer l.Close(t.Context())
		k, err := l.Acquire(t.Context(), "catalogue/7", padlock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		state, err := l.Inspect(t.Context(), "catalogue/7")
		if err == nil {
			_, err = l.Break(t.Context(), "catalogue/7", state.Fence)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-k.Context().Done()
		synctest.Wait()
		k.Release() // not counted a second time
		has(t, m,
			`padlock_locks{store="memory",group="catalogue"} 0`,
			`padlock_lock_use_seconds_count{store="memory",group="catalogue",mode="shared",outcome="lost"} 1`,
			`padlock_lock_lost_total{store="memory",group="catalogue",reason="lost"} 1`,
		)
		if strings.Contains(text(t, m), `outcome="released"`) {
			t.Error("a lost lock is counted as released")
		}
	})
}

// The number of names is not bounded, but the number of figures must be.
func TestGroupsAreBounded(t *testing.T) {
	m := metrics.New(metrics.Group(func(name string) string { return name }))
	l := padlock.New(memstore.New(), padlock.Observe(m))
	defer l.Close(t.Context())
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			if err := l.Do(t.Context(), fmt.Sprint("user-", i), func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	has(t, m, `padlock_lock_wait_seconds_count{store="memory",group="_other",mode="exclusive",outcome="acquired"} 400`)
	if n := strings.Count(text(t, m), "padlock_locks{"); n != 101 {
		t.Errorf("there are %d groups, want 100 and _other", n)
	}
}

// A name may contain any bytes, and must not be able to add a line to the output.
func TestHostileNames(t *testing.T) {
	m := metrics.New(metrics.Group(func(name string) string { return name }))
	for _, name := range []string{"a\"} 1\npadlock_locks{store=\"x\"} 7", "back\\slash", "\xff\xfe", "new\nline", "é", "\x00", ""} {
		m.Observe(t.Context(), padlock.Event{Kind: padlock.EventAcquiring, Store: "memory", Name: name})
	}
	for line := range strings.Lines(text(t, m)) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, `padlock_`) || strings.Contains(line, `store="x"`) && strings.HasSuffix(line, "} 7\n") && strings.Count(line, "{") == 1 {
			t.Errorf("the line is %q", line)
		}
	}
	has(t, m, `padlock_lock_pending_requests{store="memory",group="a\"} 1\npadlock_locks{store=\"x\"} 7"} 1`)
	check(t, m)
}

func TestElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		l := padlock.New(memstore.New(), padlock.Observe(m))
		defer l.Close(t.Context())
		e := election.New(l, "scheduler")
		m.Election("scheduler", e)
		has(t, m, `padlock_election_leading{election="scheduler"} 0`)
		if err := e.Run(t.Context(), func(context.Context) error {
			has(t, m, `padlock_election_leading{election="scheduler"} 1`)
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestStampedes: the figures of each Cache, under the name that the program gave it.
func TestStampedes(t *testing.T) {
	m := metrics.New()
	m.Stampede("pages", figures{2, 0, 3, 3, 1})
	m.Stampede(`odd "name"`, figures{0, 7, 0, 0, 0})
	has(t, m,
		`# TYPE padlock_stampede_gets_total counter`,
		`padlock_stampede_gets_total{cache="pages",result="hit"} 2`,
		`padlock_stampede_gets_total{cache="pages",result="stale"} 0`,
		`padlock_stampede_gets_total{cache="pages",result="miss"} 3`,
		`padlock_stampede_gets_total{cache="odd \"name\"",result="stale"} 7`,
		`padlock_stampede_runs_total{cache="pages"} 3`,
		`padlock_stampede_errors_total{cache="pages"} 1`,
	)
	check(t, m)
}

// figures are those of a Cache: hits, stale, misses, runs and errors.
type figures [5]uint64

func (f figures) Figures() (hits, stale, misses, runs, errors uint64) {
	return f[0], f[1], f[2], f[3], f[4]
}

func TestMethods(t *testing.T) {
	m := metrics.New(metrics.Group(nil))
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST gets %d", w.Code)
	}
	w = httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/metrics", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("HEAD gets %d and %d bytes", w.Code, w.Body.Len())
	}
	if n, err := m.WriteTo(broken{}); err == nil || n != 0 {
		t.Errorf("a writer that fails: %d, %v", n, err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestPromtool lets Prometheus's own program read the figures.
func TestPromtool(t *testing.T) {
	m := metrics.New()
	l := padlock.New(memstore.New(), padlock.Observe(m))
	defer l.Close(t.Context())
	m.Election("x", election.New(l, "x"))
	l.Do(t.Context(), "a:1", func(context.Context) error { return nil })
	l.Do(t.Context(), "b/1", func(context.Context) error { return nil }, padlock.Shared())
	check(t, m)
}

func check(t *testing.T, m *metrics.Metrics) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing; it is in Debian's package prometheus")
		}
		t.Skip("promtool is missing; it is in Debian's package prometheus")
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = bytes.NewBufferString(text(t, m))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text(t, m))
	}
}

func BenchmarkLock(b *testing.B) {
	for name, opts := range map[string][]padlock.LockerOption{
		"nobody watches": nil,
		"metrics":        {padlock.Observe(metrics.New())},
		"empty observer": {padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) {}))},
	} {
		b.Run(name, func(b *testing.B) {
			l := padlock.New(memstore.New(), opts...)
			defer l.Close(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				k, err := l.Acquire(context.Background(), "name")
				if err != nil {
					b.Fatal(err)
				}
				k.Release()
			}
		})
	}
}

func BenchmarkObserve(b *testing.B) {
	m := metrics.New()
	e := padlock.Event{Kind: padlock.EventAcquired, Store: "memory", Name: "invoice:1", Outcome: padlock.OutcomeAcquired, Took: time.Microsecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(context.Background(), e)
	}
}

// The figures say which version of padlock the program has.
func TestBuildInfo(t *testing.T) {
	var out strings.Builder
	if _, err := metrics.New().WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^padlock_build_info\{version="[^"]+",goversion="go[^"]+"\} 1$`).MatchString(out.String()) {
		t.Errorf("there is no padlock_build_info:\n%s", out.String())
	}
}
