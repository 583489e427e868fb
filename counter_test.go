package padlock_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// tallier is a Counter that writes down what it gets.
type tallier struct {
	mu       sync.Mutex
	counts   map[string][]padlock.Count // by name
	observed []padlock.EventKind
	panics   bool
}

func (c *tallier) Observe(_ context.Context, e padlock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observed = append(c.observed, e.Kind)
}

func (c *tallier) TallyOf(store, name string) padlock.Tally { return tally{c, store + ":" + name} }

type tally struct {
	*tallier
	name string
}

func (t tally) Count(c padlock.Count) {
	if t.panics {
		panic("the tally is broken")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = make(map[string][]padlock.Count)
	}
	t.counts[t.name] = append(t.counts[t.name], c)
}

// got returns the kinds of the events that were counted for name, and forgets them.
func (c *tallier) got(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var kinds []string
	for _, e := range c.counts[name] {
		kind := e.Kind.String()
		if e.AtOnce {
			kind += " at once"
		}
		kinds = append(kinds, kind)
	}
	delete(c.counts, name)
	return strings.Join(kinds, ", ")
}

// elsewhere is a memstore that says that it is not in this process.
type elsewhere struct{ *memstore.Store }

func (s elsewhere) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess = false
	return g
}

// countedLife does what a Counter counts, and checks what is counted.
func countedLife(t *testing.T, l *padlock.Locker, c *tallier, begins, atOnce string) {
	want := func(what, name, kinds string) {
		t.Helper()
		synctest.Wait()
		if got := c.got("memory:" + name); got != kinds {
			t.Errorf("%s: the Counter gets %q, want %q", what, got, kinds)
		}
	}
	k := acquire(t, l, "a", padlock.TTL(30*time.Second))
	want("an acquire", "a", begins+"acquired"+atOnce)
	<-time.After(25 * time.Second)
	want("renewals", "a", "renewed, renewed")
	if _, err := l.TryAcquire(t.Context(), "a"); !errors.Is(err, padlock.ErrHeld) {
		t.Fatal(err)
	}
	want("a refusal", "a", "acquiring, contended, refused")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx, "a"); err == nil {
		t.Fatal("the name is free")
	}
	want("a timeout", "a", "acquiring, contended, refused")
	go l.Do(t.Context(), "a", func(context.Context) error { return nil })
	want("a waiter", "a", "acquiring, contended")
	release(t, k)
	release(t, k)
	want("a hand-over", "a", "releasing, acquired, releasing")
	k = acquire(t, l, "b", padlock.MaxHold(time.Second))
	<-k.Context().Done()
	k.Release()
	want("MaxHold", "b", begins+"acquired"+atOnce+", ended")
	k = acquire(t, l, "c", padlock.Shared())
	state, err := l.Inspect(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Break(t.Context(), "c", state.Fence); err != nil {
		t.Fatal(err)
	}
	k.Check(t.Context())
	k.Release()
	want("a loss", "c", begins+"acquired"+atOnce+", lost")
	all, err := l.AcquireAll(t.Context(), []string{"d", "e"})
	if err != nil {
		t.Fatal(err)
	}
	all.Release()
	want("several names", "e", begins+"acquired"+atOnce+", releasing")
	k = acquire(t, l, "f", padlock.Slots(2))
	release(t, k)
	want("a permit", "f", begins+"acquired"+atOnce+", releasing")
	if _, err := l.Acquire(t.Context(), "g", padlock.Wait(-1)); err == nil {
		t.Fatal("the call is valid")
	}
	want("an invalid call", "g", begins+"refused"+atOnce)
}

func TestCounter(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c tallier
			l := padlock.New(memstore.New(), padlock.Observe(&c))
			defer l.Close(t.Context())
			countedLife(t, l, &c, "", " at once")
			if len(c.observed) > 0 {
				t.Errorf("Observe is called for %v", c.observed)
			}
		})
	})
	t.Run("elsewhere", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c tallier
			l := padlock.New(elsewhere{memstore.New()}, padlock.Observe(&c))
			defer l.Close(t.Context())
			countedLife(t, l, &c, "acquiring, ", "")
		})
	})
}

// A Tally gets the fields of the events of an acquire and of a hold.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tallier
		l := padlock.New(memstore.New(), padlock.Observe(&c))
		defer l.Close(t.Context())
		release(t, acquire(t, l, "a"))
		l.ShowNames(func(name string) string { return "shown " + name })
		k := acquire(t, l, "a", padlock.Shared())
		held := make(chan *padlock.Lock)
		go func() {
			k, err := l.Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			held <- k
		}()
		<-time.After(5 * time.Second)
		release(t, k)
		k = <-held
		<-time.After(3 * time.Second)
		release(t, k)
		c.mu.Lock()
		defer c.mu.Unlock()
		want := []padlock.Count{
			{Kind: padlock.EventAcquired, Mode: padlock.ModeShared, Outcome: padlock.OutcomeAcquired, AtOnce: true},
			{Kind: padlock.EventAcquiring}, {Kind: padlock.EventContended},
			{Kind: padlock.EventReleasing, Mode: padlock.ModeShared, Outcome: padlock.OutcomeReleased, Took: 5 * time.Second},
			{Kind: padlock.EventAcquired, Outcome: padlock.OutcomeAcquired, HandOver: padlock.HandOverByQueue, Took: 5 * time.Second},
			{Kind: padlock.EventReleasing, Outcome: padlock.OutcomeReleased, Took: 3 * time.Second},
		}
		if got := c.counts["memory:shown a"]; !slices.Equal(got, want) {
			t.Errorf("the Counter gets\n%+v, want\n%+v", got, want)
		}
	})
}

// A Counter next to another observer gets the events as the other one does.
func TestCounterNextToAnObserver(t *testing.T) {
	var c tallier
	var rec recorder
	l := padlock.New(memstore.New(), padlock.Observe(&c), padlock.OnEvent(rec.on))
	defer l.Close(t.Context())
	release(t, acquire(t, l, "a"))
	if len(c.counts) > 0 || len(c.observed) != len(rec.all()) || len(c.observed) == 0 {
		t.Errorf("Count is called for %v, Observe %d times, and the other observer got %d events", c.counts, len(c.observed), len(rec.all()))
	}
}

// A Counter that panics gets no more events, and the locks stay as they are.
func TestACounterThatPanics(t *testing.T) {
	var log syncBuffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	c := tallier{panics: true}
	l := padlock.New(memstore.New(), padlock.Observe(&c))
	defer l.Close(t.Context())
	for range 3 {
		release(t, acquire(t, l, "a"))
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "the tally is broken"); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("the log says %q", log.String())
		}
	}
	if n := strings.Count(log.String(), "an observer panicked"); n != 1 {
		t.Errorf("the log reports %d panics", n)
	}
}

// A lock that is forgotten is counted, although its Lock was one of many in the same memory.
func TestForgottenLocksAreCounted(t *testing.T) {
	var c tallier
	l := padlock.New(memstore.New(), padlock.Observe(&c))
	defer l.Close(t.Context())
	for i := range 1000 {
		if k := acquireToForget(t, l, "a:"+string(rune('0'+i%10))+strings.Repeat("x", i/10)); i != 700 {
			release(t, k)
		}
	}
	name := "memory:a:0" + strings.Repeat("x", 70)
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(c.got(name), "forgotten"); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("no forgotten lock is counted")
		}
	}
}

// A store that has a memstore inside keeps its own Release, although the memstore has a second
// method for it.
func TestCounterDoesNotEvadeRelease(t *testing.T) {
	s := &countsReleases{Store: memstore.New()}
	l := padlock.New(s, padlock.Observe(&tallier{}))
	defer l.Close(t.Context())
	release(t, acquire(t, l, "a"))
	if s.released != 1 {
		t.Errorf("Release of the outer store is called %d times", s.released)
	}
}

type countsReleases struct {
	*memstore.Store
	released int
}

func (s *countsReleases) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	s.released++
	return s.Store.Release(ctx, name, token, keep)
}

// Close releases a lock that was just passed on to a waiter, before that waiter has come back to
// its caller. The Counter gets both ends of that hold.
func TestCloseBeforeAWaiterHasItsLock(t *testing.T) {
	for range 300 {
		var c tallier
		l := padlock.New(elsewhere{memstore.New()}, padlock.Observe(&c), padlock.PassLocally(8, time.Minute))
		k := acquire(t, l, "a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Acquire(context.Background(), "a")
		}()
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		release(t, k)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		got := c.got("memory:a")
		if begun, ended := strings.Count(got, "acquired"), strings.Count(got, "releasing"); begun != ended {
			t.Fatalf("%d holds begin and %d end: %s", begun, ended, got)
		}
	}
}

// renamer is a Counter whose first Tally is wanted while names begin to be shown in another way.
type renamer struct {
	tallier
	l     *padlock.Locker
	names []string
}

func (r *renamer) TallyOf(store, name string) padlock.Tally {
	if r.names = append(r.names, name); len(r.names) == 1 {
		r.l.ShowNames(func(string) string { return "hidden" })
	}
	return r.tallier.TallyOf(store, name)
}

// A name that ShowNames hides is not counted under its old name later, even if ShowNames is called
// while the Locker finds its Tally.
func TestShowNamesDuringATally(t *testing.T) {
	r := &renamer{}
	r.l = padlock.New(memstore.New(), padlock.Observe(r))
	defer r.l.Close(t.Context())
	for range 3 {
		release(t, acquire(t, r.l, "secret"))
	}
	if want := []string{"secret", "hidden"}; !slices.Equal(r.names, want) {
		t.Errorf("Tallies are wanted for %q, want %q", r.names, want)
	}
}
