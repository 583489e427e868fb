package history_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// run returns run n of name. Each begins a minute after the one before it and takes ten seconds.
func run(name string, n, exit int) history.Run {
	start := noon.Add(time.Duration(n) * time.Minute)
	return history.Run{
		Name: name, ID: history.NewID(start, false), Host: "web-3", PID: 4121, Label: "report.sh", Fence: 7, Slot: -1,
		Start: start, End: start.Add(10 * time.Second), Waited: 1500 * time.Millisecond, Exit: exit,
	}
}

func skipped(name string, n int) history.Run {
	r := run(name, n, 75)
	r.ID, r.Skipped, r.Reason, r.Fence, r.End = history.NewID(r.Start, true), true, "held", 0, time.Time{}
	r.Shared, r.By = true, []driver.Holder{{Host: "web-1", PID: 12, Label: "other.sh"}}
	return r
}

func put(t *testing.T, l *history.Log, runs ...history.Run) {
	t.Helper()
	for _, r := range runs {
		w := l.Writer()
		w.Put(r)
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func fileStore(t *testing.T) driver.Store {
	t.Helper()
	s, err := filestore.Open(filepath.Join(t.TempDir(), "locks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// same reports whether two runs are equal. Times are equal if they are the same instant.
func same(a, b history.Run) bool {
	times := a.Start.Equal(b.Start) && a.End.Equal(b.End)
	a.Start, a.End, b.Start, b.End = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return times && fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}

func TestRunsComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, l := range map[string]*history.Log{"directory": history.Open(dir, "", nil), "store": history.Open("", "", fileStore(t))} {
		want := []history.Run{skipped("a", 3), run("a", 2, 1), run("a", 1, 0)}
		want[1].Signal, want[1].Reason, want[1].Slot = "KILL", "timeout", 4
		want[2].Asked, want[2].AskedBy = time.UnixMicro(noon.UnixMicro()), driver.Holder{Host: "ops", PID: 3, Label: "deploy of v2"}
		put(t, l, want[2], want[1], want[0], run("b", 1, 0))
		got, err := l.Runs(t.Context(), "a")
		if err != nil || !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, want)
		}
		if names, err := l.Names(t.Context(), ""); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("%s: names %q, %v", name, names, err)
		}
		if names, err := l.Names(t.Context(), "b"); err != nil || !slices.Equal(names, []string{"b"}) {
			t.Errorf("%s: names with b: %q, %v", name, names, err)
		}
	}
}

func TestOutcomes(t *testing.T) {
	open := run("a", 1, 0)
	open.End = time.Time{}
	killed, lost := run("a", 1, 0), run("a", 1, 0)
	killed.Signal, lost.Reason = "KILL", "lost"
	runs := []history.Run{run("a", 1, 0), run("a", 1, 3), killed, lost, skipped("a", 1), open, open}
	state := driver.State{Name: "a", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 4121}}}}
	history.MarkRunning(runs[:6], state)
	want := []history.Outcome{history.Success, history.Failure, history.Failure, history.Failure, history.Skipped, history.Running, history.NoEnd}
	for i := range runs {
		if got := runs[i].Outcome(); got != want[i] {
			t.Errorf("run %d: %s, want %s", i, got, want[i])
		}
	}
	state.Holds[0].Cooling = true
	for _, other := range []driver.State{
		{Name: "b", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 4121}}}},
		{Name: "a", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 4122}}}},
		{Name: "a", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-4", PID: 4121}}}},
		{Name: fast.SlotName("a", 0), Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 4121}}}},
		{Name: "a"}, state,
	} {
		history.MarkRunning(runs[6:], other)
		if runs[6].Running {
			t.Errorf("the run counts as running with %+v", other)
		}
	}
}

// In containers, a process often has the same host name and process ID as an earlier one that was
// killed. Only the last run of the two holds the lock.
func TestOnlyTheLastRunOfAProcessIsRunning(t *testing.T) {
	early, late := run("a", 1, 0), run("a", 1, 0)
	early.End, late.End = time.Time{}, time.Time{}
	late.Start = early.Start.Add(time.Hour)
	state := driver.State{Name: "a", Holds: []driver.Hold{{Holder: driver.Holder{Host: "web-3", PID: 4121}}}}
	for _, runs := range [][]history.Run{{late, early}, {early, late}} {
		history.MarkRunning(runs, state)
		for _, r := range runs {
			if r.Running != r.Start.Equal(late.Start) {
				t.Errorf("the run that began at %v: running is %v", r.Start, r.Running)
			}
		}
	}
}

// A run that was killed has the record of its start only. The end of a run replaces its start, even
// if only one of the places has the end.
func TestStartAndEnd(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), fileStore(t)
	both := history.Open(dir, "", store)
	ended := run("a", 1, 0)
	began := ended
	began.End = time.Time{}
	put(t, both, began)
	if got, err := both.Runs(t.Context(), "a"); err != nil || len(got) != 1 || got[0].Outcome() != history.NoEnd {
		t.Fatalf("after the start: %+v, %v", got, err)
	}
	put(t, history.Open(dir, "", nil), ended)
	if got, err := both.Runs(t.Context(), "a"); err != nil || len(got) != 1 || !same(got[0], ended) {
		t.Fatalf("after the end: %+v, %v", got, err)
	}
}

// Many skipped runs do not hide the other runs, and many failures do not hide the last success.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*history.Log{"directory": history.Open(t.TempDir(), "", nil), "both": history.Open(t.TempDir(), "", fileStore(t))} {
		put(t, l, run("a", 0, 0))
		for i := range 60 {
			put(t, l, run("a", i+1, 3), skipped("a", i+1))
		}
		runs, err := l.Runs(t.Context(), "a")
		counts := map[history.Outcome]int{}
		for _, r := range runs {
			counts[r.Outcome()]++
		}
		if err != nil || counts[history.Failure] != history.MaxRuns || counts[history.Skipped] != history.MaxRuns || counts[history.Success] != 0 {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
		s, err := jobNamed(t, l, "a")
		if err != nil || s.LastSuccess == nil || !s.LastSuccess.Start.Equal(noon) {
			t.Fatalf("%s: the last success is %+v, %v", name, s.LastSuccess, err)
		}
		if !s.Last.Start.Equal(noon.Add(time.Hour)) || !s.LastFailure.Start.Equal(s.Last.Start) || !s.LastSkipped.Start.Equal(s.Last.Start) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The history of a machine and that of the store can have different runs, because other machines
// write into the store. Together they are bounded too, and the newest remain, for a list of jobs
// too.
func TestTwoMachines(t *testing.T) {
	t.Parallel()
	store := fileStore(t)
	here, there := history.Open(t.TempDir(), "", store), history.Open(t.TempDir(), "", store)
	for i := range 40 {
		put(t, here, run("a", 2*i, max(0, 1-i))) // only the oldest run fails
		put(t, there, run("a", 2*i+1, 0))
	}
	runs, err := here.Runs(t.Context(), "a")
	if err != nil || len(runs) != history.MaxRuns || !runs[0].Start.Equal(noon.Add(79*time.Minute)) || !runs[history.MaxRuns-1].Start.Equal(noon.Add(30*time.Minute)) {
		t.Errorf("there are %d runs, %v", len(runs), err)
	}
	jobs, err := here.Jobs(t.Context(), "", history.Filter{Failed: true, Since: noon}, nil)
	if err != nil || slices.ContainsFunc(jobs, func(j history.Job) bool { return j.Start.Failed() }) {
		t.Errorf("a job shows a run that is not among the runs: %+v, %v", jobs, err)
	}
	here = history.Open(t.TempDir(), "", store)
	if runs, err := here.Runs(t.Context(), "a"); err != nil || len(runs) != history.MaxRuns {
		t.Errorf("a third machine finds %d runs, %v", len(runs), err)
	}
}

// Names and labels of any bytes are read back as they were written, and no name leads to another
// file.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := history.Open(dir, "", fileStore(t))
	names := []string{"../../x", "a\nb", "\x00", "\xff\xfe", "<script>", "a\x1b[2J", ".", strings.Repeat("n", driver.MaxName), "a/b", "A/b"}
	for i, name := range names {
		r := skipped(name, i)
		r.Label, r.Host = strings.Repeat("\x01", driver.MaxLabel), strings.Repeat("\x01", driver.MaxHost)
		r.By = slices.Repeat([]driver.Holder{{Host: r.Host, Label: "\xff" + r.Label}}, 9)
		put(t, l, r)
	}
	long := skipped("long", len(names))
	long.Label, long.Host = strings.Repeat("\u20ac", 300), strings.Repeat("\u20ac", 80)
	put(t, l, long)
	runs, err := l.Runs(t.Context(), "long")
	if err != nil || len(runs) != 1 || runs[0].Label != strings.Repeat("\u20ac", 85) || runs[0].Host != strings.Repeat("\u20ac", 21) {
		t.Errorf("a label of 900 bytes: %+v, %v", runs, err)
	}
	asked := run("asked", 1, 0)
	asked.Label, asked.Host = strings.Repeat("\x01", driver.MaxLabel), strings.Repeat("\x01", driver.MaxHost)
	asked.Asked, asked.AskedBy = noon, driver.Holder{Host: asked.Host, Label: asked.Label}
	put(t, l, asked)
	if runs, err := l.Runs(t.Context(), "asked"); err != nil || len(runs) != 1 || runs[0].AskedBy.Label != strings.Repeat("\x01", 128) {
		t.Errorf("a reason of %d bytes: %+v, %v", driver.MaxLabel, runs, err)
	}
	names = append(names, "asked", "long")
	for _, name := range names[:len(names)-2] {
		runs, err := l.Runs(t.Context(), name)
		if err != nil || len(runs) != 1 || runs[0].Name != name || runs[0].Label != strings.Repeat("\x01", 256) || len(runs[0].By) != history.MaxBy {
			t.Errorf("%q: %+v, %v", name, runs, err)
		}
	}
	if got, err := l.Names(t.Context(), ""); err != nil || len(got) != len(names) {
		t.Errorf("names %q, %v", got, err)
	}
	if outside, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "x*")); len(outside) > 0 {
		t.Errorf("there is %q", outside)
	}
}

// failing is a store whose history does not answer.
type failing struct {
	driver.Store
	err  error         // nil: it is silent and does not look at ctx
	over chan struct{} // ends the silence
}

func (f failing) Record(context.Context, string, []fast.Record) error {
	if f.err == nil {
		<-f.over
	}
	return f.err
}

func (f failing) Records(context.Context, string) ([]fast.Record, error) { return nil, f.err }

func (f failing) Recorded(context.Context, string, int) (map[string][]fast.Record, error) {
	return nil, f.err
}

// If the store is down or silent, the runs in the directory are still read, and Put never waits.
func TestStoreIsDown(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	dir := t.TempDir()
	for i, err := range []error{driver.ErrUnavailable, nil, errors.ErrUnsupported} {
		over := make(chan struct{})
		t.Cleanup(func() { close(over) })
		l := history.Open(dir, "", failing{memstore.New(), err, over})
		w := l.Writer()
		w.Put(run("a", i, 0))
		patience := time.Minute
		if err == nil {
			patience = 5 * time.Second // the silent store uses it up
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		problem := w.Wait(ctx)
		cancel()
		if (problem == nil) != (err == errors.ErrUnsupported) {
			t.Errorf("%v: Wait returns %v", err, problem)
		}
		runs, problem := l.Runs(t.Context(), "a")
		if len(runs) != i+1 || (problem != nil) != errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v: there are %d runs, and the error %v", err, len(runs), problem)
		}
	}
	l := history.Open("", "", memstore.New())
	put(t, l, run("a", 1, 0))
	if runs, err := l.Runs(t.Context(), "a"); l.Shared() || len(runs) > 0 || err != nil {
		t.Errorf("without any place: %v, %+v, %v", l.Shared(), runs, err)
	}
}

// If the directory cannot be written, only Wait returns an error.
func TestDirectoryCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := history.Open(file, "", fileStore(t))
	w := l.Writer()
	w.Put(run("a", 1, 0))
	if err := w.Wait(t.Context()); err == nil {
		t.Error("Wait returns no error")
	}
	if runs, err := l.Runs(t.Context(), "a"); err == nil || len(runs) != 1 {
		t.Errorf("%d runs, error %v", len(runs), err)
	}
}

// If neither place can be used, the error names both, in one line.
func TestBothPlacesFail(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := history.Open(file, "", failing{memstore.New(), driver.ErrUnavailable, nil})
	w := l.Writer()
	w.Put(run("a", 1, 0))
	_, read := l.Runs(t.Context(), "a")
	for _, err := range []error{w.Wait(t.Context()), read} {
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, syscall.ENOTDIR) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v", err)
		}
	}
}

// Records of a later version, and files that are no records, are left out.
func TestUnknownRecords(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), fileStore(t)
	l := history.Open(dir, "", store)
	put(t, l, run("a", 1, 0))
	recorder, _ := driver.As[fast.Recorder](store)
	for _, text := range []string{`{"v":2,"start":1}`, "null", "[]", "text", `{"start":1}`} {
		if err := recorder.Record(t.Context(), "a", []fast.Record{{ID: history.NewID(noon, false), Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.run"))
	for i, content := range []string{"", "x", "\"a\"\n", strings.Repeat("x", 1<<20), "\"b\"\n{\"v\":1}\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), fmt.Sprintf("r%d.run", i)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if runs, err := l.Runs(t.Context(), "a"); err != nil || len(runs) != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
}

// A file store that keeps its history in the directory of the machine's writes it once.
func TestOneDirectory(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l := history.Open(filepath.Join(dir, "history"), "", store)
	put(t, l, run("a", 1, 0))
	if runs, err := l.Runs(t.Context(), "a"); err != nil || len(runs) != 1 || l.Shared() {
		t.Errorf("%d runs, %v; written to the store too: %v", len(runs), err, l.Shared())
	}
	if runs, err := history.Open("", "", store).Runs(t.Context(), "a"); err != nil || len(runs) != 1 {
		t.Errorf("the store has %d runs, %v", len(runs), err)
	}
	if !history.Open(filepath.Join(t.TempDir(), "history"), "", store).Shared() {
		t.Error("a store elsewhere gets no history")
	}
}

// The histories of several stores may be in one directory. Each store has only its own runs.
func TestPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, production, staging := history.Open(dir, "", nil), history.Open(dir, "redis://a", nil), history.Open(dir, "redis://b", nil)
	put(t, staging, run("deploy", 1, 0), run("test", 1, 0))
	put(t, production, run("deploy", 2, 3))
	put(t, own, run("backup", 3, 0))
	for place, c := range map[string]struct {
		log  *history.Log
		want []string
		good bool
	}{
		"own": {own, []string{"backup"}, false}, "production": {production, []string{"deploy"}, false},
		"staging": {staging, []string{"deploy", "test"}, true},
	} {
		if names, err := c.log.Names(t.Context(), ""); err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%s has the names %q, %v; want %q", place, names, err, c.want)
		}
		if s, err := jobNamed(t, c.log, "deploy"); err != nil || (s.LastSuccess != nil) != c.good {
			t.Errorf("%s: the last success of deploy is %+v, %v", place, s.LastSuccess, err)
		}
	}
	var page strings.Builder
	jobs, err := production.Jobs(t.Context(), "", history.Filter{}, nil)
	if err = cmp.Or(err, history.WriteMetrics(&page, jobs)); err != nil ||
		!strings.Contains(page.String(), `failure_timestamp_seconds{name="deploy",place="redis://a"} `) || strings.Contains(page.String(), "success_timestamp_seconds{") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

// jobNamed returns the job with a name, or an empty one.
func jobNamed(t *testing.T, l *history.Log, name string) (history.Job, error) {
	t.Helper()
	jobs, err := l.Jobs(t.Context(), name, history.Filter{}, nil)
	for _, j := range jobs {
		if j.Name == name {
			return j, err
		}
	}
	return history.Job{}, err
}
