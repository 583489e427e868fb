package drivertest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// counted is a wrapper as people write them for metrics: it counts, and leaves names and tokens
// alone.
type counted struct {
	driver.Store
	calls *atomic.Int64
}

func (s counted) Unwrap() driver.Store { return s.Store }

func (s counted) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	s.calls.Add(1)
	return s.Store.Acquire(ctx, r)
}

func (s counted) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	s.calls.Add(1)
	return s.Store.Release(ctx, name, token, keep)
}

// around puts a wrapper around each store that h opens.
func around(h Harness, wrap func(driver.Store) driver.Store) Harness {
	open, cut, lose := h.Open, h.CutConnection, h.LoseReply
	h.Open = func(ctx context.Context) (driver.Store, error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return wrapped{wrap(s), s}, nil
	}
	h.CutConnection = func(s driver.Store) error { return cut(s.(wrapped).inner) }
	h.LoseReply = func(s driver.Store) error { return lose(s.(wrapped).inner) }
	return h
}

// wrapped keeps the inner store for the hooks of a harness.
type wrapped struct {
	driver.Store
	inner driver.Store
}

func (s wrapped) Unwrap() driver.Store { return s.Store }

// kinds are stores that together have all abilities.
var kinds = map[string]func(*world){
	"passes":          func(w *world) { w.passes = true },
	"in this process": func(w *world) { w.g.InProcess = true },
	"connected":       func(w *world) { bind(w); w.g.LossDelay = time.Second },
	"narrow":          func(w *world) { w.g.MaxName = 200 },
}

// summaryOf runs the whole suite and returns how many cases ran, and what the store can do.
func summaryOf(t *testing.T, kind func(*world), change func(Harness) Harness) (text string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("")
		kind(w)
		h := change(w.harness())
		h.Logf = func(_ string, args ...any) { text = args[0].(string) }
		for _, f := range Check(h) {
			t.Error(f)
		}
	})
	first, rest, _ := strings.Cut(text, "\n")
	ran, _, _ := strings.Cut(first, " cases ran")
	return ran + "\n" + rest
}

// A wrapper for metrics loses no ability: the same cases run and pass.
func TestWrapperLosesNothing(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			want := summaryOf(t, kind, func(h Harness) Harness { return h })
			got := summaryOf(t, kind, func(h Harness) Harness {
				return around(h, func(s driver.Store) driver.Store { return counted{s, &calls} })
			})
			if got != want {
				t.Errorf("in a wrapper the suite finds\n%s\nand without\n%s", got, want)
			}
			if calls.Load() < 1000 {
				t.Errorf("the wrapper has seen %d calls", calls.Load())
			}
		})
	}
}

// The whole contract holds behind a prefix.
func TestPrefixKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := func(s driver.Store) driver.Store { return padlock.WithPrefix(s, "tenant/../7:") }
			want := summaryOf(t, kind, func(h Harness) Harness { return h })
			got := summaryOf(t, kind, func(h Harness) Harness {
				foreign := h.Foreign
				h.Foreign = func(name string) (func() error, error) { return foreign("tenant/../7:" + name) }
				return around(h, prefix)
			})
			if got != want {
				t.Errorf("behind a prefix the suite finds\n%s\nand without\n%s", got, want)
			}
		})
	}
}

func TestPrefixedMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := memstore.New()
		h := Harness{Open: func(context.Context) (driver.Store, error) {
			return padlock.WithPrefix(first.Open(), strings.Repeat("tenant-7:", 50)), nil
		}}
		for _, f := range Check(h) {
			t.Error(f)
		}
	})
}

// core is a store with every optional interface of package driver, and none of package fast.
type core struct {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Places
	driver.Reporter
}

func (s core) SamePlace(other driver.Store) bool {
	o, ok := other.(core)
	return ok && driver.SamePlace(s.Store, o.Store)
}

// The six interfaces of package driver are a whole contract: a store without those of package fast
// passes every case about locks.
func TestNoLockNeedsPackageFast(t *testing.T) {
	t.Parallel()
	summary := summaryOf(t, func(*world) {}, func(h Harness) Harness {
		return around(h, func(s driver.Store) driver.Store {
			r := s.(*ref)
			return core{r, r, r, r, r, r, r}
		})
	})
	_, without, _ := strings.Cut(summary, "\nhas not: ")
	without, _, _ = strings.Cut(without, "\n")
	if want := "SlotTaker, BatchExtender, Passer, FileSharer, Recorder"; without != want {
		t.Errorf("the suite did not see %s, want %s:\n%s", without, want, summary)
	}
}

// Files that carry holds need a real clock.
func TestFilesThroughWrapperAndPrefix(t *testing.T) {
	t.Parallel()
	for what, wrap := range map[string]func(driver.Store) driver.Store{
		"a wrapper": func(s driver.Store) driver.Store { return counted{s, new(atomic.Int64)} },
		"a prefix":  func(s driver.Store) driver.Store { return padlock.WithPrefix(s, "p:") },
	} {
		w := newWorld("")
		h := w.harness()
		h.Open = w.openPasser
		for _, name := range []string{"file/keeps", "lost/foreign-token"} {
			for _, f := range only(t, around(h, wrap), name) {
				t.Errorf("in %s: %v", what, f)
			}
		}
	}
}
