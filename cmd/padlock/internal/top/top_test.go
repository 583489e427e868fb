package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/open"
)

// bench is a screen without a terminal, over a real store and a real Sampler.
type bench struct {
	t      *testing.T
	m      Model
	store  padlock.Store
	l      *padlock.Locker
	s      *sampler.Sampler
	broken []string // names and reasons
}

func newBench(t *testing.T, store padlock.Store) *bench {
	if store == nil {
		var err error
		if store, err = open.Store(t.Context(), "memory:"); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, store: store, l: padlock.New(store)}
	b.s = sampler.New(b.l)
	t.Cleanup(func() { b.l.Close(context.Background()) })
	b.m = New(t.Context(), Config{
		Place: "memory:", Next: b.s.Next, Lookup: b.s.Lookup,
		Break: func(ctx context.Context, h sampler.Hold, reason string) string {
			if _, err := b.l.Break(ctx, h.Name, h.Fence); err != nil {
				return "failed: " + err.Error()
			}
			b.broken = append(b.broken, h.Name+": "+reason)
			return "broken"
		},
		History: func(_ context.Context, name string) []string { return []string{"runs of " + name} },
	})
	return b
}

func (b *bench) take(name string, opts ...padlock.Option) *padlock.Lock {
	b.t.Helper()
	k, err := b.l.TryAcquire(b.t.Context(), name, opts...)
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// send gives the model a message. It returns what the command of the model sends back, if anything.
func (b *bench) send(msg tea.Msg) tea.Msg {
	m, cmd := b.m.Update(msg)
	b.m = m.(Model)
	if cmd == nil {
		return nil
	}
	return cmd()
}

// look takes a sample and shows it.
func (b *bench) look() {
	snap, _ := b.s.Sample(b.t.Context())
	m, _ := b.m.Update(snapshotMsg{snap})
	b.m = m.(Model)
}

// press presses keys: a name such as "enter", or letters.
func (b *bench) press(keys ...string) (last tea.Msg) {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp}
	for _, k := range keys {
		if code, ok := codes[k]; ok {
			last = b.send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			last = b.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return last
}

// text returns the screen without styles.
func (b *bench) text() string { return ansi.Strip(b.m.View().Content) }

func (b *bench) shows(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if !strings.Contains(b.text(), text) {
			b.t.Errorf("the screen lacks %q:\n%s", text, b.text())
		}
	}
}

func (b *bench) lacks(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if strings.Contains(b.text(), text) {
			b.t.Errorf("the screen has %q:\n%s", text, b.text())
		}
	}
}

// names returns the first words of the rows.
func (b *bench) names() (names []string) {
	for _, row := range b.m.rows() {
		names = append(names, row.Name)
	}
	return names
}

func TestTheCursorFollowsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		first := b.take("c")
		for _, name := range []string{"b", "a"} {
			<-time.After(time.Second)
			b.take(name)
		}
		b.look()
		before := b.names()
		if !slices.Equal(before, []string{"c", "b", "a"}) {
			t.Fatalf("the longest hold is not the first: %v", before)
		}
		b.press("down", "down")
		first.Release()
		b.look()
		if row, i := b.m.chosen(b.m.rows()); row.Name != "a" || i != 1 {
			t.Errorf("the cursor was on a and is on %q, row %d", row.Name, i)
		}
	})
}

func TestFilterAndHost(t *testing.T) {
	b := newBench(t, nil)
	b.take("deploy/web", padlock.Label("release 7"))
	b.take("nightly")
	ask := driver.Request{Name: "import", Token: driver.TokenOf("x"), TTL: 50 * time.Second, Holder: driver.Holder{Host: "web-9", PID: 7}}
	if _, err := b.store.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	b.look()
	b.press("/", "DEPLO", "x", "backspace", "enter")
	if got := b.names(); !slices.Equal(got, []string{"deploy/web"}) {
		t.Errorf("the filter leaves %v", got)
	}
	b.shows("filter DEPLO", `"release 7"`)
	b.press("/", "zebra")
	b.shows("no row matches", "/zebra")
	b.press("esc")
	if len(b.names()) != 3 {
		t.Errorf("without a filter: %v", b.names())
	}
	b.press("/", "web-9", "enter")
	if got := b.names(); !slices.Equal(got, []string{"import"}) {
		t.Errorf("the names of the host are %v", got)
	}
}

func TestDetails(t *testing.T) {
	b := newBench(t, nil)
	b.take("nightly", padlock.Label("month end"))
	b.look()
	if msg, ok := b.press("enter").(runsMsg); !ok {
		t.Error("the details do not ask for the runs")
	} else {
		b.send(msg)
	}
	b.shows("nightly is held", `("month end")`, "fence ", "Last runs", "runs of nightly", "usual hold: unknown")
	state, _ := b.l.Inspect(t.Context(), "nightly")
	if _, err := b.l.Break(t.Context(), "nightly", state.Fence); err != nil {
		t.Fatal(err)
	}
	b.look()
	b.shows("nightly is free", "Last holders", `("month end")`)
	b.press("esc")
	b.shows("no locks are held")
}

func TestBreakAsks(t *testing.T) {
	b := newBench(t, nil)
	k := b.take("nightly", padlock.Label("month end"))
	b.look()
	b.press("b")
	b.shows("Break nightly?", `("month end")`, fmt.Sprintf("fence %d", k.Fence()), "Why?", "does not stop the holder")
	b.press("  ", "enter") // a reason is needed
	b.shows("Why?")
	b.press("web-3 is gone", "enter")
	b.shows("Type yes", "Reason: web-3 is gone")
	b.press("y", "enter")
	b.shows("nothing was broken")
	if len(b.broken) > 0 {
		t.Fatalf("broken without a yes: %v", b.broken)
	}
	b.press("b", "web-3 is gone", "enter", "esc")
	b.press("b", "web-3 is gone", "enter")
	msg := b.press("yes", "enter")
	b.send(msg)
	if !slices.Equal(b.broken, []string{"nightly: web-3 is gone"}) {
		t.Errorf("broken: %v", b.broken)
	}
	b.shows("broken")
}

// A lock that changes hands while the question is open is not broken, even if the screen shows the
// new holder by then.
func TestBreakOnlyWhatWasShown(t *testing.T) {
	b := newBench(t, nil)
	k := b.take("nightly")
	b.look()
	b.press("b", "hangs", "enter")
	if err := k.Release(); err != nil {
		t.Fatal(err)
	}
	next := b.take("nightly")
	b.look()
	b.send(b.press("yes", "enter"))
	b.shows("failed:")
	if err := next.Release(); len(b.broken) > 0 || err != nil {
		t.Errorf("the new hold was broken: %v, %v", b.broken, err)
	}
}

// While the question is open, the hold in it grows older, whatever the store says meanwhile.
func TestQuestionGrowsOlder(t *testing.T) {
	b := newBench(t, nil)
	b.take("nightly")
	b.look()
	b.press("b")
	later := *b.m.snap
	held := later.Names[0].Holds[0].Held // before the first sample
	later.Number, later.Taken = later.Number+1, later.Taken.Add(40*time.Second-held)
	for _, msg := range []tea.Msg{snapshotMsg{&later}, tickMsg(later.Taken)} {
		m, _ := b.m.Update(msg)
		b.m = m.(Model)
	}
	b.shows("It is held by", "for 40s;")
}

func TestReadOnly(t *testing.T) {
	b := newBench(t, nil)
	b.m.config.Break = nil
	b.take("nightly")
	b.look()
	b.lacks("b break")
	b.press("b")
	b.shows("read-only")
	b.lacks("Why?")
}

// sometimes is a store whose List fails while err is not nil.
type sometimes struct {
	padlock.Store
	driver.Admin
	err error
}

func (s *sometimes) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Admin.List(ctx, prefix)
}

// A state that is not known never looks like a free lock.
func TestUnknownIsNotFree(t *testing.T) {
	memory, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	store := &sometimes{Store: memory, Admin: memory.(driver.Admin), err: fmt.Errorf("%w: no route to \x1b[31mhost", driver.ErrUnavailable)}
	b := newBench(t, store)
	b.lacks("no locks are held")
	b.look()
	b.shows("the store cannot be used", `no route to \x1b[31mhost`)
	b.lacks("no locks are held")
	store.err = nil
	b.take("nightly")
	b.look()
	taken := b.m.snap.Taken
	store.err = driver.ErrUnavailable
	b.look()
	b.send(tickMsg(taken.Add(90 * time.Second)))
	b.shows("nightly", "the rows are 1m30s old", "the store cannot be used")
	store.err = fmt.Errorf("no list: %w", errors.ErrUnsupported)
	b = newBench(t, store)
	b.look()
	b.shows("there may be more locks than these", "it is not known which locks are held")
	b.lacks("no locks are held")
}

// Every screen fits every size, and no text of others reaches the terminal as it is.
func TestEveryScreenFits(t *testing.T) {
	b := newBench(t, nil)
	b.take("evil\x1b[2J\x07\nname", padlock.Label("\x1b]0;title\x07 <b>"))
	b.take(strings.Repeat("長い名前", 20), padlock.Label(strings.Repeat("x", 100)))
	for i := range 40 {
		b.take(fmt.Sprint("job/", i))
	}
	b.look()
	ways := map[string][]string{
		"table": {"g"}, "bottom": {"G"}, "help": {"?"}, "filter": {"/", "jo"}, "details": {"g", "enter"},
		"reason": {"b", "because"}, "confirm": {"b", "because", "enter", "ye"},
	}
	start := b.m
	for name, keys := range ways {
		for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 12}, {20, 5}, {1, 1}} {
			b.m = start
			b.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			b.press(keys...)
			lines := strings.Split(b.m.View().Content, "\n")
			if len(lines) > size[1] {
				t.Errorf("%s has %d lines on %v", name, len(lines), size)
			}
			for _, line := range lines {
				if w := ansi.StringWidth(line); w > size[0] {
					t.Errorf("%s has a line of %d columns on %v: %q", name, w, size, line)
				}
				if bare := ansi.Strip(line); strings.ContainsAny(bare, "\x1b\x07\r") || strings.Contains(line, "\x1b]") || strings.Contains(line, "\x1b[2J") {
					t.Errorf("%s lets a control character through: %q", name, line)
				}
			}
		}
	}
}

// 80 columns and 24 lines are enough for the whole help.
func TestHelpFits(t *testing.T) {
	b := newBench(t, nil)
	b.look()
	b.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	b.press("?")
	screen := ansi.Strip(b.m.View().Content)
	for _, line := range helpLines() {
		if !strings.Contains(screen, line) {
			t.Errorf("the screen lacks %q:\n%s", line, screen)
		}
	}
}

func TestEveryKeyOfTheHelpWorks(t *testing.T) {
	for s, all := range bindings {
		seen := map[string]bool{}
		for _, b := range all {
			for _, k := range b.keys {
				if seen[k] {
					t.Errorf("screen %d has the key %s twice", s, k)
				}
				seen[k] = true
			}
		}
	}
}

// A low window shows a part of the help, says that there is more, and shows the rest on request.
func TestLowWindow(t *testing.T) {
	b := newBench(t, nil)
	b.look()
	b.send(tea.WindowSizeMsg{Width: 80, Height: 14})
	b.press("?")
	b.shows("Stuck names", "more lines; PgDn shows them")
	b.press("pgdown", "pgdown", "pgdown")
	if b.shows("q         quit"); strings.Contains(b.text(), "more lines") {
		t.Errorf("the end of the help:\n%s", b.text())
	}
	b.press("pgup")
	b.shows("LEFT", "more lines")
}

// A terminal gets short rows, and a pipe whole names.
func TestPrintLongNames(t *testing.T) {
	b := newBench(t, nil)
	name := strings.Repeat("long/", 60)
	b.take(name)
	b.look()
	var pipe, terminal strings.Builder
	for _, c := range []struct {
		to      *strings.Builder
		longest int
	}{{&pipe, 0}, {&terminal, 40}} {
		if err := Print(c.to, Config{Place: "memory:"}, b.m.snap, c.longest); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(pipe.String(), name+" ") {
		t.Errorf("a pipe gets\n%s", pipe.String())
	}
	for line := range strings.Lines(terminal.String()) {
		if ansi.StringWidth(line) > 150 || strings.Contains(line, name) {
			t.Errorf("a terminal gets the line %q", line)
		}
	}
}

// A name that has no row any more is free only if every name has a row.
func TestDetailsOfAMissingName(t *testing.T) {
	b := newBench(t, nil)
	k := b.take("job")
	b.look()
	b.press("enter")
	snap := *b.m.snap
	snap.Number, snap.Names, snap.Incomplete = snap.Number+1, nil, errors.ErrUnsupported
	b.m.config.Lookup = func(string) (sampler.Name, bool) { return sampler.Name{}, false }
	m, _ := b.m.Update(snapshotMsg{&snap}) // the command would wait for the next snapshot
	b.m = m.(Model)
	if got := ansi.Strip(b.m.View().Content); !strings.Contains(got, "job is unknown: it has no row any more") {
		t.Errorf("the details:\n%s", got)
	}
	k.Release()
}
