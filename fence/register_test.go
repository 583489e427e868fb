package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/safety"
)

func nothing() error { return nil }

// wantStale checks that err is a StaleError with these values.
func wantStale(t *testing.T, err error, name string, mine, seen uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || *stale != (fence.StaleError{Name: name, Fence: mine, Seen: seen}) {
		t.Errorf("got %v, want fence %d refused for %d", err, mine, seen)
	}
}

func TestRegisterRefusesSmallerFences(t *testing.T) {
	var r fence.Register
	ctx := t.Context()
	for _, f := range []uint64{5, 5, 7, 1<<53 - 1} {
		if err := r.Check("a", f); err != nil {
			t.Error(err)
		}
	}
	wantStale(t, r.Check("a", 7), "a", 7, 1<<53-1)
	if err := r.Do(ctx, "b", 3, nothing); err != nil { // another name is another resource
		t.Error(err)
	}
	wantStale(t, r.Do(ctx, "b", 2, func() error { t.Error("written with a stale fence"); return nil }), "b", 2, 3)
	if r.Seen("a") != 1<<53-1 || r.Seen("b") != 3 || r.Seen("c") != 0 {
		t.Errorf("seen %d, %d, %d", r.Seen("a"), r.Seen("b"), r.Seen("c"))
	}
	want := errors.New("of the write")
	if err := r.Do(ctx, "b", 4, func() error { return want }); err != want {
		t.Errorf("Do says %v", err)
	}
}

func TestWhatIsNoFence(t *testing.T) {
	var r fence.Register
	for f, want := range map[uint64]error{0: fence.ErrMissing, 1 << 53: fence.ErrMalformed, 1<<64 - 1: fence.ErrMalformed} {
		if err := r.Check("a", f); !errors.Is(err, want) {
			t.Errorf("Check(%d) says %v", f, err)
		}
		if err := r.Do(t.Context(), "a", f, nothing); !errors.Is(err, want) {
			t.Errorf("Do(%d) says %v", f, err)
		}
	}
	if r.Seen("a") != 0 {
		t.Error("what is no fence was remembered")
	}
}

// If a holder is paused in the middle of its write, the write of a later holder does not begin
// before the first write has ended.
func TestALaterHolderWaitsForTheWriteOfAnEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r fence.Register
		var log []string
		start := time.Now()
		go r.Do(t.Context(), "a", 1, func() error {
			<-time.After(time.Minute)
			log = append(log, "first")
			return nil
		})
		synctest.Wait()
		done := make(chan error)
		go func() {
			done <- r.Do(t.Context(), "a", 2, func() error { log = append(log, "second"); return nil })
		}()
		synctest.Wait()
		// From now on the first holder is refused, though the second one has not written yet.
		wantStale(t, r.Do(t.Context(), "a", 1, nothing), "a", 1, 2)
		if err := <-done; err != nil || time.Since(start) != time.Minute || len(log) != 2 || log[1] != "second" {
			t.Errorf("after %v: %v, %v", time.Since(start), log, err)
		}
	})
}

func TestWritesOfOneHolderRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r fence.Register
		var together sync.WaitGroup
		together.Add(3)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r.Do(t.Context(), "a", 1, func() error { together.Done(); together.Wait(); return nil })
			})
		}
		wg.Wait()
	})
}

// A writer that waits can be overtaken by a later holder, or its context can end. A panic of the
// write function leaves nothing behind.
func TestWaitingForAnEarlierWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r fence.Register
		go r.Do(t.Context(), "a", 1, func() error { <-time.After(time.Minute); return nil })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Do(ctx, "a", 2, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do says %v", err)
		}
		overtaken := make(chan error)
		go func() { overtaken <- r.Do(t.Context(), "a", 3, nothing) }()
		synctest.Wait()
		if err := r.Check("a", 4); err != nil {
			t.Error(err)
		}
		wantStale(t, <-overtaken, "a", 3, 4)
		func() {
			defer func() { recover() }()
			r.Do(t.Context(), "a", 5, func() error { panic("of the write") })
		}()
		if err := r.Do(t.Context(), "a", 6, nothing); err != nil {
			t.Error(err)
		}
		if err := r.Do(ctx, "b", 1, func() error { t.Error("written after its context"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do says %v", err)
		}
	})
}

// With Max, a Register forgets the name that was not used for the longest time, but no name that is
// in use.
func TestRegisterForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fence.Register{Max: 2}
		check := func(name string, f uint64, want error) {
			t.Helper()
			if err := r.Check(name, f); !errors.Is(err, want) {
				t.Errorf("%s with %d: %v, want %v", name, f, err, want)
			}
		}
		check("a", 5, nil)
		check("b", 5, nil)
		check("a", 4, fence.ErrStale) // this also counts as a use of a
		check("c", 5, nil)            // so b is forgotten
		check("a", 4, fence.ErrStale)
		check("c", 4, fence.ErrStale)
		check("b", 4, nil)

		release := make(chan struct{})
		var all sync.WaitGroup
		write := func(f uint64, do func() error) {
			all.Go(func() {
				if err := r.Do(t.Context(), "busy", f, do); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		write(7, func() error { <-release; return nil })
		write(8, nothing) // waits for the write with fence 7
		for i := range 10 {
			check(string(rune('k'+i)), 5, nil)
		}
		check("busy", 6, fence.ErrStale)
		close(release)
		all.Wait()
		check("busy", 7, fence.ErrStale)
		check("a", 4, nil)
		check("c", 4, nil)
		if r.Seen("busy") != 0 {
			t.Error("a name that is in use no more is not forgotten")
		}
	})
}

// Writes with different fences never run at the same time, and no write has a smaller fence than
// the write before it.
func TestRegisterUnderLoad(t *testing.T) {
	var r fence.Register
	var running, last atomic.Uint64 // running: number of writes<<32 + sum of their fences
	var wrote atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range uint64(2000) {
				f := i/10 + rand.Uint64N(20) + 1
				r.Do(t.Context(), "a", f, func() error {
					if now := running.Add(1<<32 + f); now != (now>>32)*(1<<32+f) {
						safety.TwoHold(t, "a write with fence %d runs at the same time as another", f)
					}
					safety.Keeps(t, f, last.Swap(f))
					wrote.Add(1)
					running.Add(^(1<<32 + f - 1))
					return nil
				})
			}
		})
	}
	wg.Wait()
	if wrote.Load() < 100 {
		t.Errorf("only %d writes; the test is worth little", wrote.Load())
	}
}
