package facetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// syncBuffer is for a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A lock that nobody can release any more is reported and stays held. Locks that were released or
// exported, or that the caller still has, are not reported.
func TestForgottenLock(t *testing.T) {
	t.Parallel()
	var rec recorder
	var log syncBuffer
	l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(rec.on)), padlock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	defer l.Close(t.Context())
	kept := acquireToForget(t, l, "kept")
	release(t, acquireToForget(t, l, "released"))
	if _, err := acquireToForget(t, l, "exported").Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquireToForget(t, l, "forgotten")
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "forgotten"); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("no forgotten lock is reported")
		}
	}
	for range 3 {
		runtime.GC()
	}
	for _, e := range rec.all() {
		if e.Kind == padlock.EventForgotten && e.Name != "forgotten" {
			t.Errorf("%q counts as forgotten", e.Name)
		}
	}
	if rec.last(padlock.EventForgotten).Name != "forgotten" {
		t.Error("OnEvent did not hear of it")
	}
	if _, err := l.TryAcquire(t.Context(), "forgotten"); err == nil {
		t.Error("a forgotten lock was given up, though somebody may rely on it")
	}
	release(t, kept)
}

// Of many locks that are taken in quick succession, each one that is forgotten is reported, once.
func TestForgottenLocksOfACrowd(t *testing.T) {
	t.Parallel()
	var rec recorder
	l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(rec.on)))
	defer l.Close(t.Context())
	const all, every = 3000, 10
	for i := range all {
		lock := acquireToForget(t, l, fmt.Sprint(i))
		if i%every != 0 {
			release(t, lock)
		}
	}
	found := map[string]int{}
	for deadline := time.Now().Add(20 * time.Second); len(found) < all/every && time.Now().Before(deadline); runtime.GC() {
		clear(found)
		for _, e := range rec.all() {
			if e.Kind == padlock.EventForgotten {
				found[e.Name]++
			}
		}
	}
	for i := range all {
		want := 0
		if i%every == 0 {
			want = 1
		}
		if n := found[fmt.Sprint(i)]; n != want {
			t.Errorf("lock %d is reported %d times, want %d", i, n, want)
		}
	}
}

// An observer costs five allocations: the Lock, and what the runtime and the Locker keep for its
// cleanup. Under the race detector, the random bytes of the token are one more.
func TestAllocationsOfObservers(t *testing.T) {
	for what, c := range map[string]struct {
		opts []padlock.LockerOption
		most float64
	}{
		"no observer": {nil, 7},
		"an observer": {[]padlock.LockerOption{padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) {}))}, 12},
		"a logger":    {[]padlock.LockerOption{padlock.Logger(slog.New(slog.DiscardHandler))}, 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := padlock.New(memstore.New(), c.opts...)
			defer l.Close(t.Context())
			once := func() {
				lock, err := l.Acquire(context.Background(), "job")
				if err == nil {
					err = lock.Release()
				}
				if err != nil {
					t.Error(err)
				}
			}
			for range 1000 {
				once()
			}
			if n := testing.AllocsPerRun(1000, once); n > c.most {
				t.Errorf("%s: an acquire and a release make %v allocations, want at most %v", what, n, c.most)
			}
		})
	}
}

// Locks in use do not count as forgotten, however the caller will release them.
func TestLocksInUseAreNotForgotten(t *testing.T) {
	t.Parallel()
	for how, use := range map[string]func(lock *padlock.Lock, work func()) error{
		"defer": func(lock *padlock.Lock, work func()) error {
			defer lock.Release()
			work()
			return nil
		},
		"method value": func(lock *padlock.Lock, work func()) error {
			release := lock.Release
			work()
			return release()
		},
		"closure": func(lock *padlock.Lock, work func()) error {
			release := func() error { return lock.Release() }
			work()
			return release()
		},
		"only its context, and defer": func(lock *padlock.Lock, work func()) error {
			defer lock.Release()
			ctx := lock.Context()
			work()
			return ctx.Err()
		},
	} {
		var rec recorder
		l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(rec.on)))
		defer l.Close(t.Context())
		err := use(acquireToForget(t, l, "in use"), func() {
			acquireToForget(t, l, "forgotten")
			for deadline := time.Now().Add(20 * time.Second); rec.last(padlock.EventForgotten).Name == "there was none"; runtime.GC() {
				if time.Now().After(deadline) {
					t.Fatal("no forgotten lock is reported")
				}
			}
			for range 3 {
				runtime.GC()
			}
		})
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
		for _, e := range rec.all() {
			if e.Kind == padlock.EventForgotten && e.Name == "in use" {
				t.Errorf("%s: a lock in use counts as forgotten", how)
			}
		}
	}
}

// The zero Lock and nil, which a caller has if it ignores an error, behave like a lock that was
// released.
func TestZeroLock(t *testing.T) {
	for what, lock := range map[string]*padlock.Lock{"zero": {}, "nil": nil} {
		t.Run(what, func(t *testing.T) {
			ctx := t.Context()
			if lock.Name() != "" || lock.Shared() || lock.Fence() != 0 || lock.Remaining() != 0 {
				t.Errorf("%q, %v, %d, %v", lock.Name(), lock.Shared(), lock.Fence(), lock.Remaining())
			}
			if s := fmt.Sprintf("%v %+v %#v", lock, lock, lock); s != "lock on \"\" lock on \"\" lock on \"\"" {
				t.Error(s)
			}
			wantOnly(t, context.Cause(lock.Context()), "hold", padlock.ErrReleased)
			wantOnly(t, lock.Check(ctx), "check", padlock.ErrReleased)
			wantOnly(t, lock.Extend(ctx, 0), "extend", padlock.ErrReleased)
			wantOnly(t, lock.Extend(ctx, time.Minute), "extend", padlock.ErrReleased)
			wantOnly(t, lock.Promote(ctx), "promote", padlock.ErrReleased)
			wantOnly(t, lock.Demote(ctx), "demote", padlock.ErrReleased)
			_, err := lock.Export(t.Context())
			wantOnly(t, err, "export", padlock.ErrReleased)
			if _, err := lock.File(); err == nil {
				t.Error("it has a file")
			}
			wantOnly(t, lock.Release(), "release", padlock.ErrReleased)
			wantOnly(t, lock.Release(), "release", padlock.ErrReleased)
			if err := lock.Release(padlock.CoolDown(time.Second)); err == nil {
				t.Error("it cools down")
			}
		})
	}
}

// The garbage collector reports a forgotten lock outside of the bubble of a test with synctest, and
// Close waits in the bubble for the end of that report.
func TestForgottenLockInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, over atomic.Bool
		l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			if e.Kind == padlock.EventForgotten {
				told.Store(true)
				<-time.After(100 * time.Millisecond) // Close begins meanwhile
				over.Store(true)
			}
		})))
		acquireToForget(t, l, "forgotten")
		for i := 0; !told.Load() && i < 10000; i++ {
			runtime.GC()
		}
		if !told.Load() {
			t.Fatal("no forgotten lock is reported")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for !over.Load() {
			runtime.Gosched()
		}
		l.Stats() // the report has ended
	})
}
