package sampler_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/reads"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// sample takes a sample that must succeed.
func sample(t *testing.T, s *sampler.Sampler) *sampler.Snapshot {
	t.Helper()
	snap, err := s.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// row returns the row of name, which must exist.
func row(t *testing.T, snap *sampler.Snapshot, name string) *sampler.Name {
	t.Helper()
	i := slices.IndexFunc(snap.Names, func(n sampler.Name) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("there is no row of %q among %d", name, len(snap.Names))
	}
	return &snap.Names[i]
}

// look looks at each snapshot, as a page does that somebody has open.
func look(ctx context.Context, s *sampler.Sampler) {
	for snap, err := s.Next(ctx, 0); err == nil; {
		snap, err = s.Next(ctx, snap.Number)
	}
}

// later waits until the time d has passed in the bubble.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func take(t *testing.T, l *padlock.Locker, name string, opts ...padlock.Option) *padlock.Lock {
	t.Helper()
	k, err := l.Acquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGrantsAndHoldTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		if snap := s.Snapshot(); snap.Number != 0 || snap.Age(time.Now()) != -1 {
			t.Errorf("before the first sample: %+v", snap)
		}
		before := take(t, l, "invoice:1")
		if n := row(t, sample(t, s), "invoice:1"); n.Grants != 0 || n.State != sampler.Held {
			t.Errorf("a hold from before the first sample: %+v", n)
		}
		before.Release()
		later(time.Second)
		for range 10 {
			k := take(t, l, "invoice:1", padlock.Label("month end"))
			later(time.Second)
			n := row(t, sample(t, s), "invoice:1")
			if h := n.Holds[0]; h.Held != time.Second || h.Label != "month end" || h.Fence != k.Fence() || h.Slot != -1 || h.AtLeast {
				t.Errorf("the hold is %+v", h)
			}
			later(time.Second)
			k.Release()
			later(time.Second)
			if snap := sample(t, s); len(snap.Names) != 0 {
				t.Errorf("a free name has a row: %+v", snap.Names)
			}
		}
		n, ok := s.Lookup("invoice:1")
		if !ok || n.State != sampler.Free || n.Grants != 10 || n.Usual.Count != 11 {
			t.Errorf("%v, %+v", ok, n)
		}
		if n.Usual.P50 < 2*time.Second || n.Usual.P50 > 2500*time.Millisecond {
			t.Errorf("holds of 2 s have the median %s", n.Usual.P50)
		}
		snap := s.Snapshot()
		if e := snap.Ended[0]; e.How != sampler.Released || e.Label != "month end" || e.Name != "invoice:1" {
			t.Errorf("the last end is %+v", e)
		}
		if g := snap.Groups[0]; g.Group != "invoice" || g.Grants != 10 || g.Usual.Count != 11 {
			t.Errorf("the group is %+v", g)
		}
	})
}

func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		k := take(t, l, "hot")
		cool := take(t, l, "other")
		defer cool.Release()
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 { // each in a process of its own, which has one place in the store's queue
			other := padlock.New(store, padlock.KeepStoreOpen())
			defer other.Close(t.Context())
			go other.Do(ctx, "hot", func(context.Context) error { return nil })
		}
		synctest.Wait()
		sample(t, s)
		later(10 * time.Second)
		snap := sample(t, s)
		n := row(t, snap, "hot")
		if n.Waiters != 3 || n.Waiting != 30*time.Second || n.WaitTime != n.Waiting {
			t.Errorf("3 callers waited for 10 s: %+v", n)
		}
		if snap.Names[0].Name != "hot" {
			t.Errorf("the name that callers wait for is not the first one: %+v", snap.Names)
		}
		cancel()
		k.Release()
		synctest.Wait()
		later(time.Second)
		sample(t, s)
		if n, _ := s.Lookup("hot"); n.Waiting != 0 || n.Waiters != 0 || n.WaitTime != 30*time.Second {
			t.Errorf("after the queue is empty: %+v", n)
		}
	})
}

// The holder died, so nobody renews the lock and nobody releases it.
func TestADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store, padlock.KeepStoreOpen())
		defer store.Close()
		defer l.Close(t.Context())
		s := sampler.New(l)
		ask := driver.Request{Name: "job", Token: driver.TokenOf("one"), TTL: 30 * time.Second, Holder: driver.Holder{Host: "web-3", PID: 4121}}
		if _, err := store.Acquire(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		sample(t, s)
		for range 3 { // the holder renews as it should
			later(10 * time.Second)
			if _, err := store.Extend(t.Context(), "job", "one", 30*time.Second); err != nil {
				t.Fatal(err)
			}
			if n := row(t, sample(t, s), "job"); len(n.Stuck) > 0 {
				t.Errorf("a hold that is renewed is stuck: %+v", n)
			}
		}
		for second := range 29 {
			later(time.Second)
			n := row(t, sample(t, s), "job")
			if late := second+1 >= 18; late != slices.Contains(n.Stuck, sampler.NotRenewed) {
				t.Errorf("%d s after the last renewal: stuck: %v, %+v", second+1, n.Stuck, n.Holds[0])
			}
		}
		later(2 * time.Second)
		snap := sample(t, s)
		if len(snap.Names) != 0 || snap.Ended[0].How != sampler.Expired || snap.Ended[0].Host != "web-3" {
			t.Errorf("after the lease: %+v, ended %+v", snap.Names, snap.Ended)
		}
		if n, _ := s.Lookup("job"); n.Expired != 1 || n.Missed != 2 {
			t.Errorf("%+v", n.Figures)
		}
	})
}

// While the store is down, the rows stay and say how old they are.
func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sometimes{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		k := take(t, l, "job")
		defer k.Release()
		sample(t, s)
		store.down = true
		later(5 * time.Second)
		snap, err := s.Sample(t.Context())
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(snap.Err, driver.ErrUnavailable) {
			t.Errorf("the error is %v", err)
		}
		if n := row(t, snap, "job"); n.State != sampler.Held || snap.Age(time.Now()) != 5*time.Second {
			t.Errorf("the age is %s, the row %+v", snap.Age(time.Now()), n)
		}
	})
}

// sometimes is a store that can be down.
type sometimes struct {
	*memstore.Store
	down bool
}

func (s *sometimes) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if s.down {
		return nil, driver.ErrUnavailable
	}
	return s.Store.List(ctx, prefix)
}

func TestRunAndNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		s := sampler.New(l)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		began := time.Now()
		for number := range uint64(5) {
			snap, err := s.Next(t.Context(), number)
			if err != nil || snap.Number != number+1 {
				t.Fatalf("after %d came %d, %v", number, snap.Number, err)
			}
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("5 samples took %s", took)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		if _, err := s.Next(ctx, 100); !errors.Is(err, context.Canceled) {
			t.Errorf("Next returned %v", err)
		}
	})
}

// priced is a store that reads each name by a request.
type priced struct {
	*memstore.Store
	names int
	err   error
}

func (p priced) List(ctx context.Context, prefix string) ([]driver.State, error) {
	reads.Add(ctx, p.names)
	all, err := p.Store.List(ctx, prefix)
	return all, errors.Join(err, p.err)
}

// A store that needs a request for each name is sampled less often, also while samples fail, and
// the cost tells the requests.
func TestRequestsForSingleNames(t *testing.T) {
	for _, err := range []error{nil, driver.ErrUnavailable} {
		for names, want := range map[int]time.Duration{1: time.Second, 60: 30 * time.Second, 600: time.Minute} {
			l := padlock.New(priced{memstore.New(), names, err})
			s, _ := sampler.New(l).Sample(t.Context())
			if c := s.Cost; c.Interval < want || c.Interval > want+time.Second || c.Requests < float64(names)/c.Interval.Seconds() {
				t.Errorf("%d names, %v: %+v, want an interval of %v", names, err, c, want)
			}
			l.Close(t.Context())
		}
	}
}

// counting counts the looks at a store.
type counting struct {
	driver.Store
	looks atomic.Int32
}

func (c *counting) List(ctx context.Context, prefix string) ([]driver.State, error) {
	c.looks.Add(1)
	return c.Store.(driver.Admin).List(ctx, prefix)
}

func (c *counting) Inspect(ctx context.Context, name string) (driver.State, error) {
	return c.Store.(driver.Admin).Inspect(ctx, name)
}

func (c *counting) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	return c.Store.(driver.Admin).Break(ctx, name, seen)
}

// Run sends nothing before somebody looks, and nothing after that.
func TestNoSampleUnlessSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		later(time.Hour)
		if n := store.looks.Load(); n != 0 {
			t.Errorf("nobody looked, and %d samples were taken", n)
		}
		for hour := range uint64(3) {
			snap, err := s.Next(ctx, s.Snapshot().Number)
			if err != nil || snap.Number > 2*hour+2 || time.Since(snap.Taken) > time.Second {
				t.Errorf("sample %d was taken %v ago: %v", snap.Number, time.Since(snap.Taken), err)
			}
			later(time.Hour)
		}
		if n := store.looks.Load(); n > 6 {
			t.Errorf("three looks took %d samples", n)
		}
	})
}

// A store counts the callers of a process as one. Those of this process are known better.
func TestLocalWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := padlock.New(store), padlock.New(store, padlock.KeepStoreOpen())
		defer l.Close(t.Context())
		defer take(t, l, "job").Release()
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		for range 7 {
			go other.Do(ctx, "job", func(context.Context) error { return nil })
		}
		synctest.Wait()
		here := map[string]int{"job": 7, "not waited for in the store": 3}
		s := sampler.New(l, sampler.LocalWaiters(func() map[string]int { return here }))
		if n := row(t, sample(t, s), "job"); n.Waiters != 7 || n.Level() != "hot" || len(s.Snapshot().Names) != 1 {
			t.Errorf("%d waiters, %s: %+v", n.Waiters, n.Level(), s.Snapshot().Names)
		}
		here = nil
		if n := row(t, sample(t, s), "job"); n.Waiters != 1 {
			t.Errorf("%d waiters", n.Waiters)
		}
	})
}

// Nobody looks for a while. How long a hold lasted is known only if that is short compared with the
// hold, and nobody watches a name meanwhile.
func TestNobodyLooksForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		held, gap, want time.Duration // the hold is released in the middle of the gap
	}{
		"a short hold": {3 * time.Second, 45 * time.Second, -1},
		"a long hold":  {10 * time.Minute, 45 * time.Second, 10 * time.Minute},
		"a night":      {time.Minute, 9 * time.Hour, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := padlock.New(memstore.New())
				defer l.Close(t.Context())
				s := sampler.New(l, sampler.Watch("watched"))
				sample(t, s)
				later(time.Second)
				k := take(t, l, "job")
				for end := time.Now().Add(test.held - test.gap/2); time.Now().Before(end); later(time.Second) {
					sample(t, s)
				}
				sample(t, s)
				before := sums(s.Day("watched"))
				later(test.gap / 2)
				k.Release()
				later(test.gap / 2)
				sample(t, s)
				n, _ := s.Lookup("job")
				if len(n.Ended) != 1 || (n.Ended[0].Held-test.want).Abs() > 2*time.Second || n.Usual.Count != uint64(min(1, test.want+1)) {
					t.Errorf("ended: %+v, usually %+v, want %v", n.Ended, n.Usual, test.want)
				}
				if day := sums(s.Day("watched")); test.gap > time.Hour && (day != before || sums(s.Day("never-seen")) != before) {
					t.Errorf("watched: %+v, %+v before", day, before)
				}
			})
		})
	}
}
