package history_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/history"
)

// on returns a run that asked for the lock at the time, on the host.
func on(host string, asked time.Time, took time.Duration, exit int) history.Run {
	r := history.Run{Name: "nightly", Host: host, PID: 41, Slot: -1, Waited: 2 * time.Second, Exit: exit}
	r.Start = asked.Add(r.Waited)
	r.End = r.Start.Add(took)
	r.ID = history.NewID(r.Start, false)
	return r
}

func skippedOn(host string, asked time.Time) history.Run {
	r := on(host, asked, 0, 75)
	r.Skipped, r.Reason, r.End = true, "held", time.Time{}
	r.ID = history.NewID(r.Start, true)
	r.By = []driver.Holder{{Host: "web-3", PID: 41}}
	return r
}

// describe returns the hosts of each start: that of the run, and those that were skipped.
func describe(starts []history.Start) string {
	var all []string
	for _, s := range starts {
		text := "-"
		if s.Run != nil {
			text = s.Run.Host
		}
		for _, r := range s.Skipped {
			text += "+" + r.Host
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestStarts(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for want, runs := range map[string][]history.Run{
		"":                  nil,
		"web-3+web-1+web-2": {on("web-3", at(0), time.Minute, 0), skippedOn("web-1", at(1)), skippedOn("web-2", at(29))},
		// The clock of the host that ran it is late.
		"web-2+web-1": {skippedOn("web-1", at(0)), on("web-2", at(3), time.Minute, 0)},
		// Nobody ran it, twice.
		"-+a+b -+a+b": {skippedOn("a", at(0)), skippedOn("b", at(0)), skippedOn("a", at(300)), skippedOn("b", at(301))},
		// Starts that are close together: a host starts once, and one run begins.
		"a+b a+b": {on("a", at(0), time.Second, 0), skippedOn("b", at(0)), on("a", at(10), time.Second, 0), skippedOn("b", at(11))},
		"b a":     {on("a", at(0), time.Second, 0), on("b", at(2), time.Second, 0)},
		"-+a -+a": {skippedOn("a", at(0)), skippedOn("a", at(5))},
		"-+c a":   {on("a", at(0), time.Minute, 0), skippedOn("c", at(31))},
	} {
		if got := describe(history.Starts(runs)); got != want {
			t.Errorf("the starts are %q, want %q", got, want)
		}
	}
}

// A line has room for four hosts.
func TestSkippedOn(t *testing.T) {
	t.Parallel()
	for hosts, want := range map[string]string{"a": "A", "a b c d": "A, B, C, D", "a b c d e f": "A, B, C, D and 2 more"} {
		runs := []history.Run{}
		for _, host := range strings.Fields(hosts) {
			runs = append(runs, skippedOn(host, noon))
		}
		starts := history.Starts(runs)
		if got := starts[0].SkippedOn(strings.ToUpper); len(starts) != 1 || got != want {
			t.Errorf("%d starts, skipped on %q, want %q", len(starts), got, want)
		}
	}
}

// nights returns one run for each night, the last of which began before now. The last run has the
// exit status.
func nights(n int, now time.Time, took time.Duration, exit int) (runs []history.Run) {
	for i := range n {
		status := 0
		if i == 0 {
			status = exit
		}
		begun := now.Add(-time.Duration(i)*24*time.Hour - 2*time.Hour)
		runs = append(runs, on("web-3", begun, took+time.Duration(i)*time.Second, status), skippedOn("web-1", begun), skippedOn("web-2", begun))
	}
	return runs
}

// manyJobs writes jobs of every level.
func manyJobs(t *testing.T, l *history.Log, now time.Time) {
	t.Helper()
	write := func(name string, runs ...history.Run) {
		for _, r := range runs {
			r.Name = name
			put(t, l, r)
		}
	}
	slow := nights(6, now, 40*time.Second, 0)
	slow[0].End = slow[0].Start.Add(time.Hour)
	late := nights(8, now.Add(-48*time.Hour), time.Minute, 0)
	var hand []history.Run
	for _, hours := range []time.Duration{720, 721, 722, 723, 733} {
		hand = append(hand, on("web-1", now.Add(-hours*time.Hour), time.Minute, 0))
	}
	running := nights(3, now.Add(2*time.Hour-time.Minute), time.Minute, 0)
	running[0].End = time.Time{}
	killed := nights(2, now, time.Minute, 0)
	killed[0].End = time.Time{}
	write("failed", nights(5, now, 40*time.Second, 3)...)
	write("slow", slow...)
	write("late", late...)
	write("hand", hand...)
	write("running", running...)
	write("killed", killed...)
	write("fine", nights(8, now, time.Minute, 0)...)
	write("never", skippedOn("web-1", now.Add(-time.Hour)), skippedOn("web-2", now.Add(-time.Hour+time.Second)))
	write("mended", append(nights(5, now.Add(-5*time.Hour), time.Minute, 1), on("web-2", now.Add(-time.Minute), time.Minute, 0))...)
}

func TestJobs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := history.Open(t.TempDir(), "", nil)
	manyJobs(t, l, now)
	mark := func(name string, runs []history.Run) error {
		if name == "running" {
			history.MarkRunning(runs, driver.State{Name: name, Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 41}}}})
		}
		return nil
	}
	list := func(f history.Filter) string {
		t.Helper()
		jobs, err := l.Jobs(t.Context(), "", f, mark)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, j := range jobs {
			all = append(all, fmt.Sprintf("%s:%s:%s", j.Name, j.Level, j.Start.Last().Host))
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		filter history.Filter
		want   string
	}{
		{history.Filter{}, "failed:failed:web-3 killed:failed:web-3 late:overdue:web-3 slow:slow:web-3 mended:ok:web-2 running:running:web-3 never:skipped:web-2 fine:ok:web-3 hand:ok:web-1"},
		{history.Filter{Failed: true}, "failed:failed:web-3 killed:failed:web-3 late:overdue:web-3"},
		{history.Filter{Failed: true, Since: now.Add(-10 * time.Hour)}, "failed:failed:web-3 killed:failed:web-3 late:overdue:web-3 mended:ok:web-3"},
		{history.Filter{Since: now.Add(-90 * time.Minute)}, "mended:ok:web-2 running:running:web-3 never:skipped:web-2"},
		{history.Filter{Host: "web-2", Since: now.Add(-90 * time.Minute)}, "mended:ok:web-2 running:running:web-3 never:skipped:web-2"},
		{history.Filter{Host: "web-9"}, ""},
		{history.Filter{Failed: true, Host: "web-9"}, ""},
	} {
		if got := list(c.filter); got != c.want {
			t.Errorf("%+v: the jobs are\n%s, want\n%s", c.filter, got, c.want)
		}
	}
	jobs, _ := l.Jobs(t.Context(), "failed", history.Filter{}, nil)
	if j := jobs[0]; len(jobs) != 1 || j.Usual != 43*time.Second || !j.LastSuccess.Start.Equal(j.Start.Run.Start.Add(-24*time.Hour)) || len(j.Start.Skipped) != 2 {
		t.Errorf("the failed job is %+v", jobs)
	}
	jobs, _ = l.Jobs(t.Context(), "mended", history.Filter{}, nil)
	if j := jobs[0]; len(jobs) != 1 || j.Usual != 63*time.Second { // of 61, 62, 63 and 64 s, without the last run
		t.Errorf("the mended job usually takes %s", j.Usual)
	}
}

// If the time is over, names are missing, so there is an error, even if no part of the history
// failed.
func TestJobsAfterTheTimeIsOver(t *testing.T) {
	t.Parallel()
	l := history.Open(t.TempDir(), "", nil)
	put(t, l, run("a", 1, 0), run("b", 1, 0), run("c", 1, 0))
	ctx, cancel := context.WithCancel(t.Context())
	jobs, err := l.Jobs(ctx, "", history.Filter{}, func(name string, _ []history.Run) error {
		if name == "b" {
			cancel()
		}
		return nil
	})
	if len(jobs) != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("the time was over after the second of three jobs: %d, %v", len(jobs), err)
	}
}

// jobsOf writes the runs of one job and returns the jobs that the filter chooses: one or none.
func jobsOf(t *testing.T, f history.Filter, mark func(string, []history.Run) error, runs ...history.Run) []history.Job {
	t.Helper()
	l := history.Open(t.TempDir(), "", nil)
	put(t, l, runs...)
	jobs, err := l.Jobs(t.Context(), "", f, mark)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Since is about when a run began, not about when it asked for the lock.
func TestSinceIsAboutTheBegin(t *testing.T) {
	t.Parallel()
	waited := on("web-3", noon.Add(-2*time.Hour), time.Minute, 0)
	waited.Start, waited.End, waited.Waited = noon.Add(-30*time.Minute), noon, 90*time.Minute
	if got := jobsOf(t, history.Filter{Since: noon.Add(-time.Hour)}, nil, waited); len(got) != 1 {
		t.Errorf("the run that asked before, and began since then, is not among %+v", got)
	}
	if got := jobsOf(t, history.Filter{Since: noon.Add(-time.Minute)}, nil, waited); len(got) != 0 {
		t.Errorf("the run that began before is among %+v", got)
	}
}

// With Failed and Since, the failed run of a job is shown even if the job is also overdue. Without
// a failed run, the last one is shown.
func TestFailedRunOfAnOverdueJob(t *testing.T) {
	t.Parallel()
	now := time.Now()
	runs := nights(8, now.Add(-48*time.Hour), time.Minute, 0)
	runs[3].Exit = 3 // the run of the night before the last one
	for since, want := range map[time.Duration]int{7 * 24 * time.Hour: 3, time.Hour: 0, 0: 0} {
		f := history.Filter{Failed: true}
		if since > 0 {
			f.Since = now.Add(-since)
		}
		got := jobsOf(t, f, nil, runs...)
		if len(got) != 1 || got[0].Level != history.LevelOverdue || !got[0].Start.Run.Start.Equal(runs[want].Start.Truncate(time.Microsecond)) {
			t.Errorf("since %s: %+v", since, got)
		}
	}
}

// A job that is always skipped becomes overdue, but not while its last run is under way, and not at
// once after a long one.
func TestSkippedStartsDoNotCount(t *testing.T) {
	t.Parallel()
	now := time.Now()
	hourly := func(lastRun int, took time.Duration) (runs []history.Run) {
		for i := range 12 {
			asked := now.Add(-time.Duration(i)*time.Hour - 10*time.Minute)
			r := on("web-3", asked, time.Minute, 0)
			switch {
			case i < lastRun:
				r = skippedOn("web-3", asked)
			case i == lastRun && took == 0:
				r.End = time.Time{}
			case i == lastRun:
				r.End = r.Start.Add(took)
			}
			runs = append(runs, r)
		}
		return runs
	}
	isRunning := func(_ string, runs []history.Run) error {
		history.MarkRunning(runs, driver.State{Name: "nightly", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 41}}}})
		return nil
	}
	for want, runs := range map[history.Level][]history.Run{
		history.LevelOverdue: hourly(3, 2*time.Minute),
		history.LevelSlow:    hourly(3, 3*time.Hour),
		history.LevelGood:    hourly(0, time.Minute),
		history.LevelSkipped: hourly(12, time.Minute),
	} {
		if got := jobsOf(t, history.Filter{}, isRunning, runs...); got[0].Level != want {
			t.Errorf("the level is %s, want %s", got[0].Level, want)
		}
	}
	if got := jobsOf(t, history.Filter{}, isRunning, hourly(3, 0)...); got[0].Due.Before(now) || !got[0].IsSlow(now) {
		t.Errorf("a run that is under way, and lets others be skipped, is due at %s", got[0].Due)
	}
}

// AskRunning asks once for each lock and slot of a run without an end, and says which it could not
// ask for.
func TestAskRunning(t *testing.T) {
	t.Parallel()
	ended, open, again, slot := on("web-3", noon, time.Minute, 0), on("web-3", noon, 0, 0), on("web-3", noon.Add(time.Hour), 0, 0), on("web-3", noon, 0, 0)
	open.End, again.End, slot.End, slot.Slot = time.Time{}, time.Time{}, time.Time{}, 2
	down := errors.New("down")
	for err, want := range map[error]string{nil: "nightly true true", down: "nightly false false", errors.ErrUnsupported: "nightly false false"} {
		runs := []history.Run{ended, open, again, slot}
		var asked []string
		got := history.AskRunning(t.Context(), runs, func(_ context.Context, name string) (driver.State, error) {
			asked = append(asked, name)
			return driver.State{Name: name, Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 41}}}}, err
		})
		if text := fmt.Sprintf("%s %t %t", asked[0], runs[2].Running, runs[3].Running); text != want || runs[0].Running || runs[1].Running {
			t.Errorf("%v: asked for %q: %+v", err, asked, runs)
		}
		if isDown := err == down; isDown != errors.Is(got, down) || isDown != (len(asked) == 1) || !isDown && (got != nil || len(asked) != 2 || asked[1] != fast.SlotName("nightly", 2)) {
			t.Errorf("%v: asked for %q: %v", err, asked, got)
		}
	}
}

// A program that keeps the jobs does not keep all records of their names.
func TestJobsAreSmall(t *testing.T) { // not parallel: it measures the memory
	l := history.Open(t.TempDir(), "", nil)
	for i := range 10 {
		for night := range 40 {
			r := on("web-3", time.Now().Add(-time.Duration(night)*24*time.Hour), time.Minute, 0)
			r.Name, r.Label = fmt.Sprint("job ", i), strings.Repeat("x", 240)
			put(t, l, r)
		}
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	jobs, err := l.Jobs(t.Context(), "", history.Filter{}, nil)
	if each := (heap() - before) / 10; err != nil || len(jobs) != 10 || each > 6_000 {
		t.Errorf("each of %d jobs takes %d bytes: %v", len(jobs), each, err)
	}
	runtime.KeepAlive(jobs)
}
