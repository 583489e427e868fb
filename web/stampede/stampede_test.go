package stampede_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// longLease is a lease that does not end while a slow machine stands still.
const longLease = 30 * time.Second

// fleet is several processes with one lock store and one place for values.
type fleet struct {
	caches []*stampede.Family
	values stampede.Values
}

// shared wraps a Memory so that the Cache does not see that it is one. Otherwise the Cache would
// not share failures through it.
type shared struct{ stampede.Values }

func newFleet(t *testing.T, n int, opts ...stampede.Option) *fleet {
	t.Helper()
	return newFleetOn(t, shared{stampede.NewMemory()}, n, opts...)
}

func newFleetOn(t *testing.T, values stampede.Values, n int, opts ...stampede.Option) *fleet {
	t.Helper()
	store, f := memstore.New(), &fleet{values: values}
	for range n {
		l := padlock.New(store.Open())
		c := stampede.NewFamily(l, f.values, opts...)
		f.caches = append(f.caches, c)
		t.Cleanup(func() {
			if err := errors.Join(c.Close(context.Background()), l.Close(context.Background())); err != nil {
				t.Error(err)
			}
		})
	}
	return f
}

// counter has a function to be cached, and counts its runs.
type counter struct {
	takes          time.Duration
	runs, now, top atomic.Int64
	err            atomic.Pointer[error]
}

func (c *counter) fn(ctx context.Context) (string, error) {
	if n := c.now.Add(1); n > c.top.Load() {
		c.top.Store(n)
	}
	defer c.now.Add(-1)
	run := c.runs.Add(1)
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if err := c.err.Load(); err != nil && *err != nil {
		return "", *err
	}
	return fmt.Sprint("value ", run), nil
}

func (c *counter) fail(err error) { c.err.Store(&err) }

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestOneRunForAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 4)
		work := &counter{takes: 200 * time.Millisecond}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				v, err := stampede.Remember(t.Context(), f.caches[i%4], "k", time.Minute, work.fn)
				if v != "value 1" || err != nil {
					t.Errorf("caller %d got %q, %v", i, v, err)
				}
			})
		}
		wg.Wait()
		if n := work.runs.Load(); n != 1 {
			t.Errorf("%d runs for 200 callers in 4 processes", n)
		}
		if d := time.Since(start); d > 210*time.Millisecond {
			t.Errorf("the slowest caller waited %v for a function that takes 200ms", d)
		}
	})
}

// load calls loadOnce at the given rate per second, for the time d. It returns the longest time
// that a call took.
func load(t *testing.T, f *fleet, d time.Duration, rate int, loadOnce func(c *stampede.Family) error) (slowest time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	pause := time.Second / time.Duration(rate)
	for i := range int(d / pause) {
		wg.Go(func() {
			start := time.Now()
			if err := loadOnce(f.caches[i%len(f.caches)]); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(start))
		})
		<-time.After(pause)
	}
	wg.Wait()
	return slowest
}

func TestExpiryUnderLoad(t *testing.T) {
	for _, stale := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("stale=", stale), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 4, stampede.Stale(stale))
				work := &counter{takes: 200 * time.Millisecond}
				ask := func(c *stampede.Family) error {
					_, err := stampede.Remember(t.Context(), c, "k", time.Second, work.fn)
					return err
				}
				if err := ask(f.caches[0]); err != nil { // the cold start
					t.Fatal(err)
				}
				slowest := load(t, f, 10*time.Second, 1000, ask)
				if n := work.runs.Load(); n < 9 || n > 11 || work.top.Load() != 1 {
					t.Errorf("%d runs in 10 s with a TTL of 1 s, up to %d at once", n, work.top.Load())
				}
				if stale > 0 && slowest > 0 {
					t.Errorf("a caller waited %v although a stale value was there", slowest)
				}
			})
		})
	}
}

func TestSlowerThanLeaseAndTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 4, stampede.Lease(time.Second))
		work := &counter{takes: 5 * time.Second}
		load(t, f, 30*time.Second, 20, func(c *stampede.Family) error {
			_, err := stampede.Remember(t.Context(), c, "k", time.Second, work.fn)
			return err
		})
		if work.top.Load() != 1 {
			t.Errorf("%d runs at once", work.top.Load())
		}
	})
}

func TestCallerAndWorkerApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1)
		work := &counter{takes: time.Second}
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		patient := make(chan error, 1)
		go func() {
			<-time.After(50 * time.Millisecond)
			_, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Minute, work.fn)
			patient <- err
		}()
		_, err := stampede.Remember(impatient, f.caches[0], "k", time.Minute, work.fn)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the impatient caller got %v", err)
		}
		if err := <-patient; err != nil || work.runs.Load() != 1 {
			t.Errorf("a caller that joined the first caller got %v after %d runs", err, work.runs.Load())
		}
	})
}

func TestAbandonedWorkerIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1)
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := stampede.Remember(ctx, f.caches[0], "k", time.Minute, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "nobody waits") {
			t.Errorf("the function ended for the reason %v", err)
		}
		v, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Minute, func(context.Context) (int, error) { return 7, nil })
		if v != 7 || err != nil {
			t.Errorf("the next caller got %v, %v", v, err)
		}
	})
}

func TestErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, stampede.StaleIfError(time.Minute), stampede.ErrorTTL(10*time.Second))
		c, work, broken := f.caches[0], &counter{}, errors.New("database is down")
		ask := func() (string, error) {
			return stampede.Remember(t.Context(), c, "k", time.Second, work.fn)
		}
		work.fail(broken)
		for range 5 {
			if _, err := ask(); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		if n := work.runs.Load(); n != 1 {
			t.Errorf("%d runs during the back-off", n)
		}
		<-time.After(10 * time.Second)
		work.fail(nil)
		if v, err := ask(); v != "value 2" || err != nil {
			t.Errorf("after the back-off: %q, %v", v, err)
		}
		<-time.After(2 * time.Second)
		work.fail(broken)
		if v, err := ask(); v != "value 2" || err != nil {
			t.Errorf("with StaleIfError: %q, %v", v, err)
		}
		<-time.After(time.Minute)
		if _, err := ask(); !errors.Is(err, broken) {
			t.Errorf("after StaleIfError's time: %v", err)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1)
		_, err := stampede.Remember(t.Context(), f.caches[0], "k", time.Second, func(context.Context) (int, error) { panic("boom") })
		var p *stampede.PanicError
		if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "stampede_test") {
			t.Errorf("got %v", err)
		}
	})
}

// A value that is being made when its key is invalidated is not kept, in any process. Later callers
// get a new one.
func TestInvalidateDiscardsAFillUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []error
		f := newFleet(t, 2, stampede.OnError(func(_ context.Context, _ string, err error) { told = append(told, err) }))
		work := &counter{takes: time.Second}
		ask := func(c *stampede.Family) string {
			v, err := stampede.Remember(t.Context(), c, "k", time.Minute, work.fn)
			if err != nil {
				t.Error(err)
			}
			return v
		}
		first := make(chan string, 1)
		go func() { first <- ask(f.caches[0]) }()
		<-time.After(500 * time.Millisecond)
		if err := f.caches[1].Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if v := ask(f.caches[1]); v != "value 2" {
			t.Errorf("who came after the invalidation got %q", v)
		}
		if v := <-first; v != "value 1" {
			t.Errorf("who came before got %q", v)
		}
		if v := ask(f.caches[0]); v != "value 2" {
			t.Errorf("then the key has %q", v)
		}
		if len(told) != 1 || told[0] != stampede.ErrNotKept {
			t.Errorf("OnError got %v", told)
		}
	})
}

// A worker that wakes up after its lease cannot overwrite a newer value.
func TestLateFillIsRefused(t *testing.T) {
	ctx, m := context.Background(), stampede.NewMemory()
	old, _ := m.Load(ctx, "k")
	if ok, _ := m.Store(ctx, "k", stampede.Entry{Value: []byte("new"), Fence: 20, Version: old.Version, Fresh: time.Minute, Keep: time.Minute}); !ok {
		t.Fatal("the newer value is not kept")
	}
	if ok, _ := m.Store(ctx, "k", stampede.Entry{Value: []byte("old"), Fence: 10, Version: old.Version, Fresh: time.Minute, Keep: time.Minute}); ok {
		t.Error("a value with a smaller fence replaced it")
	}
	if e, _ := m.Load(ctx, "k"); string(e.Value) != "new" {
		t.Errorf("%q is kept", e.Value)
	}
}

func TestForgottenVersionsDoNotComeBack(t *testing.T) {
	ctx, m := context.Background(), stampede.NewMemory(stampede.MaxValues(2))
	before, _ := m.Load(ctx, "k")
	m.Discard(ctx, "k")
	for i := range 10 {
		m.Discard(ctx, fmt.Sprint("other ", i)) // k is forgotten
	}
	if ok, _ := m.Store(ctx, "k", stampede.Entry{Value: []byte("x"), Version: before.Version, Keep: time.Minute}); ok {
		t.Error("a fill that began before the Discard was kept, since the Discard was forgotten")
	}
}

func TestEarlyRenewsBeforeTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 4, stampede.Early(1))
		work := &counter{takes: 100 * time.Millisecond}
		ask := func(c *stampede.Family) error {
			_, err := stampede.Remember(t.Context(), c, "k", 2*time.Second, work.fn)
			return err
		}
		ask(f.caches[0])
		slowest := load(t, f, 20*time.Second, 500, ask)
		if slowest > 0 || work.top.Load() != 1 {
			t.Errorf("a caller waited %v, up to %d runs at once", slowest, work.top.Load())
		}
		if n := work.runs.Load(); n > 20 {
			t.Errorf("%d runs in 20 s with a TTL of 2 s", n)
		}
	})
}

func TestMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 1, stampede.MaxWait(time.Second), stampede.StaleIfError(time.Hour))
		work := &counter{}
		stampede.Remember(t.Context(), f.caches[0], "old", time.Second, work.fn)
		<-time.After(2 * time.Second)
		slow := &counter{takes: 5 * time.Second}
		if _, err := stampede.Remember(t.Context(), f.caches[0], "new", time.Second, slow.fn); !errors.Is(err, stampede.ErrNotReady) {
			t.Errorf("without a value: %v", err)
		}
		if v, err := stampede.Remember(t.Context(), f.caches[0], "old", time.Second, slow.fn); v != "value 1" || err != nil {
			t.Errorf("with a stale value: %q, %v", v, err)
		}
	})
}

func TestLocalLevel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, stampede.Local(time.Second))
		work := &counter{}
		ask := func(c *stampede.Family) string {
			v, _ := stampede.Remember(t.Context(), c, "k", time.Minute, work.fn)
			return v
		}
		ask(f.caches[0])
		ask(f.caches[1])
		f.caches[0].Invalidate(t.Context(), "k")
		if v := ask(f.caches[0]); v != "value 2" {
			t.Errorf("the process that invalidated has %q", v)
		}
		if v := ask(f.caches[1]); v != "value 1" {
			t.Errorf("the other has %q before its local time is over", v)
		}
		<-time.After(time.Second)
		if v := ask(f.caches[1]); v != "value 2" {
			t.Errorf("the other has %q", v)
		}
	})
}

// A value of another type, as after a change of the program, counts as absent.
func TestValueOfAnotherType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reported []error
		f := newFleet(t, 2, stampede.Local(time.Minute), stampede.OnError(func(_ context.Context, _ string, err error) { reported = append(reported, err) }))
		stampede.Remember(t.Context(), f.caches[0], "k", time.Minute, func(context.Context) (string, error) { return "text", nil })
		v, err := stampede.Remember(t.Context(), f.caches[1], "k", time.Minute, func(context.Context) (int, error) { return 1, nil })
		if v != 1 || err != nil || len(reported) == 0 {
			t.Errorf("%v, %v, OnError got %v", v, err, reported)
		}
	})
}
