package drivertest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// TestRun runs the suite as the author of a store does, with a real clock, and with files that
// carry holds, which are impossible in a bubble.
func TestRun(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	w := newWorld("")
	h := w.harness()
	h.Open = w.openPasser
	Run(t, h)
}

func TestFileCasesCanFail(t *testing.T) {
	t.Parallel()
	for b, want := range map[bug]string{fileUnmarked: "file/keeps", fileForAnybody: "lost/foreign-token"} {
		w := newWorld(b)
		h := w.harness()
		h.Open = w.openPasser
		var got []Failure
		for _, name := range []string{"file/keeps", "lost/foreign-token"} {
			got = append(got, only(t, h, name)...)
		}
		if !slices.Equal(names(got), []string{want}) {
			t.Errorf("%s: the cases that fail are %q, want %q", b, got, want)
		}
	}
}

// TestServersClock checks that a store may judge leases by the wall clock of its server, if its
// Guarantees say so.
func TestServersClock(t *testing.T) {
	t.Parallel()
	w := newWorld("")
	w.byWallClock()
	w.g.SafeClockJump = driver.PromiseNo
	for _, f := range only(t, w.harness(), "clock/server") {
		t.Error(f)
	}
}

// TestAlone: a run with Alone makes the faults, and no case that can run together with others.
func TestAlone(t *testing.T) {
	t.Parallel()
	h := newWorld("").harness()
	h.Alone = true
	r, err := start(h)
	if err != nil {
		t.Fatal(err)
	}
	defer r.finish()
	var ran []string
	r.forEachCase(func(k *testCase) { ran = append(ran, k.name) })
	if !slices.Contains(ran, "restart/keeps-holds") || slices.Contains(ran, "acquire/free") || len(ran) < 5 {
		t.Errorf("these cases ran: %q", ran)
	}
}

// TestAsk: every case has a result, which says what the harness or the store lacks, or how the store
// failed.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(sameFenceAgain)
		h := w.harness()
		h.Restart = nil
		results, err := Ask(h, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Result{}
		for _, r := range results {
			got[r.Case] = r
			if r.Clause == "" {
				t.Errorf("%s has no clause", r.Case)
			}
		}
		if len(got) != len(table)+1 {
			t.Errorf("%d results of %d cases", len(got), len(table)+1)
		}
		if r := got["restart/keeps-holds"]; r.Missing != "Harness.Restart" || len(r.Failures) > 0 || r.Took != 0 {
			t.Errorf("a case without its hook: %+v", r)
		}
		if r := got["acquire/expiry"]; r.Missing != "" || len(r.Failures) == 0 || r.Took == 0 {
			t.Errorf("a rule that the store broke: %+v", r)
		}
		if r := got["acquire/free"]; r.Missing != "" || len(r.Failures) > 0 {
			t.Errorf("a rule that the store obeys: %+v", r)
		}
		some, err := Ask(h, func(name string) bool { return name == "acquire/expiry" })
		if err != nil || len(some) != 2 || some[0].Case != "acquire/expiry" || len(some[0].Failures) == 0 {
			t.Errorf("one case: %+v, %v", some, err)
		}
		close(w.leak)
	})
}

// only runs one case.
func only(t *testing.T, h Harness, name string) []Failure {
	t.Helper()
	r, err := start(h)
	if err != nil {
		t.Fatal(err)
	}
	defer r.finish()
	i := slices.IndexFunc(table, func(k testCase) bool { return k.name == name })
	if missing := r.missing(&table[i]); len(missing) > 0 {
		t.Fatalf("%s does not apply: it needs %s", name, missing[0].what)
	}
	return r.perform(&table[i])
}

// TestTooSlow runs each case first on a machine that takes longer than the leases. No store fails
// because of that.
func TestTooSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		w.trip = 150 * time.Millisecond
		for _, f := range Check(w.harness()) {
			t.Error(f)
		}
	})
}

// TestRequestsOfAnHour: the suite soon gives up a store whose methods return late, and names the
// rule.
func TestRequestsOfAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(""), time.Now()
		w.trip = time.Hour
		fs := Check(w.harness())
		if took := time.Since(began); len(fs) < maxSilent || took > 10*driver.MaxSilence {
			t.Errorf("after %v the suite has %d failures", took, len(fs))
		}
		for _, f := range fs {
			if f.Clause != inTime || !strings.HasPrefix(f.At, "cases_") {
				t.Errorf("a call that takes an hour is reported as %v", f)
			}
		}
	})
}

func TestCheckSaysWhyAStoreDoesNotOpen(t *testing.T) {
	h := Harness{Open: func(context.Context) (driver.Store, error) { return nil, errors.New("no such host") }}
	if fs := Check(h); len(fs) != 1 || fs[0].Seen != "no such host" {
		t.Errorf("Check of a store that does not open returns %v", fs)
	}
}

// hanging is a store whose Extend and Wait do not return until the channel is closed.
type hanging struct {
	driver.Store
	until chan struct{}
}

func (s hanging) Unwrap() driver.Store { return s.Store }

func (s hanging) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	<-s.until
	return driver.Grant{}, nil
}

func (s hanging) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	<-s.until
	return driver.Grant{}, nil
}

func TestHangingMethodIsAFailure(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"acquire/free": "Extend has not returned after 10s", "queue/counted": "did not return although its context ended"} {
		synctest.Test(t, func(t *testing.T) {
			r, until := begin(t, newWorld("").harness()), make(chan struct{})
			defer close(until)
			r.a, r.b = hanging{r.a, until}, hanging{r.b, until}
			i := slices.IndexFunc(table, func(k testCase) bool { return k.name == name })
			fs := r.perform(&table[i])
			if !slices.ContainsFunc(fs, func(f Failure) bool { return strings.Contains(f.Seen, want) }) {
				t.Errorf("a method that hangs is reported as %v", fs)
			}
		})
	}
}

func TestPanicIsAFailure(t *testing.T) {
	w := newWorld("")
	r, err := start(w.harness())
	if err != nil {
		t.Fatal(err)
	}
	k := testCase{name: "x", f: func(*check) { panic("oh") }}
	if fs := r.perform(&k); len(fs) != 1 || !strings.Contains(fs[0].Seen, "oh") {
		t.Errorf("a panic is reported as %v", fs)
	}
}

// TestFailureSaysWhere checks that a failure shows the rule, what was seen and the line of the
// case.
func TestFailureSaysWhere(t *testing.T) {
	t.Parallel()
	var fs []Failure
	synctest.Test(t, func(t *testing.T) { fs = only(t, newWorld(extendShortens).harness(), "extend/never-shortens") })
	if len(fs) != 1 {
		t.Fatalf("%d failures, want one: %v", len(fs), fs)
	}
	want := regexp.MustCompile(`^extend/never-shortens: Extend never shortens a lease, and neither does .*\.\n\tseen: .*want a \*HeldError, got a grant .*\n\tat:   cases_extend\.go:\d+$`)
	if !want.MatchString(fs[0].String()) {
		t.Errorf("a failure reads\n%s", fs[0])
	}
}

// TestSummary checks that the summary names the promises that were not checked.
func TestSummary(t *testing.T) {
	t.Parallel()
	var text string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		h := Harness{Open: w.open, Logf: func(_ string, args ...any) { text = args[0].(string) }}
		Check(h)
	})
	for _, want := range []string{
		`store "reference"`, "promotion atomic", "fence/over-restart (needs Harness.Restart)", "SurvivesRestart=yes", "SafeClockJump=yes",
		"has: leases, shared mode", "has not: SlotTaker, BatchExtender, Passer, FileSharer",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary does not say %q:\n%s", want, text)
		}
	}
}
