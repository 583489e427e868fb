package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// guarded is a lock store that has restarted: it grants no lock.
type guarded struct {
	driver.Store
	on *atomic.Bool
}

func (g guarded) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if g.on.Load() {
		return driver.Grant{}, fmt.Errorf("%w: the server has restarted and may have lost locks", driver.ErrUnavailable)
	}
	return g.Store.Acquire(ctx, r)
}

// frozen is a Values that does not answer while it is on.
type frozen struct {
	stampede.Values
	on atomic.Bool
}

func (f *frozen) wait(ctx context.Context) error {
	if !f.on.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Second):
		return errors.New("the server does not answer")
	}
}

func (f *frozen) Load(ctx context.Context, key string) (stampede.Entry, error) {
	if err := f.wait(ctx); err != nil {
		return stampede.Entry{}, err
	}
	return f.Values.Load(ctx, key)
}

func (f *frozen) Store(ctx context.Context, key string, e stampede.Entry) (bool, error) {
	if err := f.wait(ctx); err != nil {
		return false, err
	}
	return f.Values.Store(ctx, key, e)
}

type outage struct {
	caches []*stampede.Family
	guard  atomic.Bool
	values *frozen
}

func newOutage(t *testing.T, processes int) *outage {
	t.Helper()
	o, locks := &outage{values: &frozen{Values: shared{stampede.NewMemory()}}}, memstore.New()
	for range processes {
		l := padlock.New(guarded{locks.Open(), &o.guard})
		c := stampede.NewFamily(l, o.values)
		o.caches = append(o.caches, c)
		t.Cleanup(func() {
			if err := errors.Join(c.Close(context.Background()), l.Close(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
	return o
}

// After a restart of the lock server, which grants no lock for minutes, values are kept: each
// process calls the function once at most.
func TestRestartOfTheLockServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOutage(t, 2)
		o.guard.Store(true)
		work := &counter{takes: 20 * time.Millisecond}
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				if _, err := stampede.Remember(t.Context(), o.caches[i%2], "k", time.Hour, work.fn); err != nil {
					t.Error(err)
				}
			})
			<-time.After(time.Millisecond)
		}
		all.Wait()
		if n := work.runs.Load(); n > 2 {
			t.Errorf("%d runs in two processes", n)
		}
		before := work.runs.Load()
		o.guard.Store(false)
		if _, err := stampede.Remember(t.Context(), o.caches[0], "k", time.Hour, work.fn); err != nil || work.runs.Load() != before {
			t.Errorf("after the guard: %v, %d runs more", err, work.runs.Load()-before)
		}
	})
}

// A value that was made without a lock replaces neither a value that was made with one meanwhile,
// nor what an Invalidate has removed.
func TestWithoutLockNothingNewerIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, meanwhile := range map[string]func(o *outage) string{
			"another worker": func(o *outage) string {
				o.guard.Store(false)
				v, err := stampede.Remember(t.Context(), o.caches[1], "k", time.Hour, func(context.Context) (string, error) { return "newer", nil })
				if err != nil {
					t.Error(err)
				}
				return v
			},
			"an Invalidate": func(o *outage) string {
				if err := o.caches[1].Invalidate(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				return "made again"
			},
		} {
			o := newOutage(t, 2)
			o.guard.Store(true)
			want := ""
			if _, err := stampede.Remember(t.Context(), o.caches[0], "k", time.Hour, func(context.Context) (string, error) {
				want = meanwhile(o)
				return "older", nil
			}); err != nil {
				t.Error(err)
			}
			o.guard.Store(false)
			again := func(context.Context) (string, error) { return "made again", nil }
			if got, err := stampede.Remember(t.Context(), o.caches[1], "k", time.Hour, again); got != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		}
	})
}

// MaxWait bounds Get while Values does not answer. A value that this process knows is served, fresh
// or stale; otherwise the error is ErrNotReady.
func TestMaxWaitWithFrozenValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOutage(t, 1)
		work := &counter{}
		get := func(key string, opts ...stampede.Option) (string, time.Duration, error) {
			start := time.Now()
			v, err := stampede.Remember(t.Context(), o.caches[0], key, time.Minute, work.fn, append(opts, stampede.MaxWait(200*time.Millisecond))...)
			return v, time.Since(start), err
		}
		if v, _, err := get("known", stampede.Stale(time.Hour)); v != "value 1" || err != nil {
			t.Fatalf("%q, %v", v, err)
		}
		o.values.on.Store(true)
		o.guard.Store(true)
		if v, d, err := get("known"); v != "value 1" || err != nil || d > 200*time.Millisecond {
			t.Errorf("a fresh value: %q, %v after %v", v, err, d)
		}
		<-time.After(2 * time.Minute)
		work.takes = time.Hour
		if v, d, err := get("known", stampede.Stale(time.Hour)); v != "value 1" || err != nil || d > 200*time.Millisecond {
			t.Errorf("a stale value: %q, %v after %v", v, err, d)
		}
		if v, d, err := get("known", stampede.Stale(time.Hour)); v != "value 1" || err != nil || d > 0 {
			t.Errorf("a stale value, a moment after Values did not answer: %q, %v after %v", v, err, d)
		}
		<-time.After(2 * time.Second)
		if v, d, err := get("unknown"); !errors.Is(err, stampede.ErrNotReady) || d > 200*time.Millisecond {
			t.Errorf("no value: %q, %v after %v", v, err, d)
		}
	})
}

// While neither store answers, a process makes a value once and serves it from its copy. It asks
// Values again, and what Values has then counts.
func TestValuesComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOutage(t, 2)
		o.values.on.Store(true)
		o.guard.Store(true)
		work := &counter{}
		for i := range 20 {
			if v, err := stampede.Remember(t.Context(), o.caches[0], "k", time.Hour, work.fn, stampede.MaxWait(time.Minute)); v != "value 1" || err != nil {
				t.Errorf("call %d: %q, %v", i, v, err)
			}
		}
		o.values.on.Store(false)
		o.guard.Store(false)
		if v, err := stampede.Remember(t.Context(), o.caches[1], "k", time.Hour, work.fn); v != "value 2" || err != nil {
			t.Errorf("another process: %q, %v", v, err)
		}
		<-time.After(2 * time.Second)
		if v, err := stampede.Remember(t.Context(), o.caches[0], "k", time.Hour, work.fn); v != "value 2" || err != nil {
			t.Errorf("after the outage: %q, %v", v, err)
		}
	})
}

// TestMemoryHasNoSpareCopies: values in this process can always be reached. Copies of them would
// only hold on to values that MaxBytes has removed.
func TestMemoryHasNoSpareCopies(t *testing.T) {
	locker := padlock.New(memstore.New())
	defer locker.Close(bg)
	f := stampede.NewFamily(locker, stampede.NewMemory(stampede.MaxBytes(2<<20)))
	defer f.Close(bg)
	for i := range 8 {
		if _, err := stampede.Remember(t.Context(), f, fmt.Sprint("k", i), time.Hour, func(context.Context) ([]byte, error) { return make([]byte, 1<<20), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.SpareBytes(); n != 0 {
		t.Errorf("the copies have %d bytes", n)
	}
}

// The copies are bounded in bytes, and an Invalidate removes them.
func TestSpareCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOutage(t, 1)
		big := make([]byte, 1<<20)
		for i := range 40 {
			if _, err := stampede.Remember(t.Context(), o.caches[0], fmt.Sprint("k", i), time.Hour, func(context.Context) ([]byte, error) { return big, nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n := o.caches[0].SpareBytes(); n > 16<<20 || n < 15<<20 {
			t.Errorf("the copies have %d bytes", n)
		}
		if err := o.caches[0].Invalidate(t.Context(), "k39"); err != nil {
			t.Fatal(err)
		}
		if n := o.caches[0].SpareBytes(); n > 15<<20 {
			t.Errorf("after an Invalidate, the copies have %d bytes", n)
		}
	})
}
