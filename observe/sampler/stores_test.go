package sampler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestSlotsAreOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New(), padlock.Slots(2))
		defer l.Close(t.Context())
		s := sampler.New(l)
		a, b := take(t, l, "encoder"), take(t, l, "encoder")
		go l.Do(t.Context(), "encoder", func(context.Context) error { return nil })
		synctest.Wait()
		sample(t, s)
		later(time.Second)
		snap := sample(t, s)
		if len(snap.Names) != 1 {
			t.Fatalf("the rows are %+v", snap.Names)
		}
		n := row(t, snap, "encoder")
		if len(n.Holds) != 2 || n.Holds[0].Slot != 0 || n.Holds[1].Slot != 1 || n.Holds[1].Name != fast.SlotName("encoder", 1) || n.Holds[1].Fence == 0 {
			t.Errorf("the holds are %+v", n.Holds)
		}
		if n.Waiters != 1 || n.Waiting != time.Second {
			t.Errorf("one caller waits for a slot: %d, %s", n.Waiters, n.Waiting)
		}
		a.Release()
		b.Release()
		synctest.Wait()
		later(time.Second)
		if snap := sample(t, s); len(snap.Names) != 0 || len(snap.Ended) != 2 || snap.Ended[0].Name != "encoder" {
			t.Errorf("after the end: %+v, %+v", snap.Names, snap.Ended)
		}
	})
}

// hold takes a lock as a holder in another process would, and nobody renews it.
func hold(t *testing.T, store driver.Store, name, token string, ttl, plan time.Duration) {
	t.Helper()
	if _, err := store.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(token), TTL: ttl, Holder: driver.Holder{Host: "web-3", PID: 7, Plan: plan}}); err != nil {
		t.Fatal(err)
	}
}

func TestLongAndPastEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		sample(t, s)
		for range 5 {
			k := take(t, l, "catalogue")
			later(time.Second)
			sample(t, s)
			later(time.Second)
			k.Release()
			sample(t, s)
		}
		take(t, l, "catalogue")
		hold(t, store, "planned", "p", 50*time.Second, 5*time.Second)
		hold(t, store, "unplanned", "u", 20*time.Second, 0) // nobody renews it, as with a lock of PHP
		for second := range 15 {
			snap := sample(t, s)
			n := row(t, snap, "catalogue")
			if long := second > 10; long != slices.Contains(n.Stuck, sampler.Long) {
				t.Errorf("held for %d s, usually for 2 s: %v, slowness %g", second, n.Stuck, n.Slowness)
			}
			if over := second > 7; over != slices.Contains(row(t, snap, "planned").Stuck, sampler.PastEnd) {
				t.Errorf("%d s after the grant, planned for 5 s: %v", second, row(t, snap, "planned").Stuck)
			}
			if stuck := row(t, snap, "unplanned").Stuck; len(stuck) > 0 {
				t.Errorf("nothing is known about it, and it is stuck: %v", stuck)
			}
			later(time.Second)
		}
		if first := sample(t, s).Names; first[0].Name != "catalogue" || first[1].Name != "planned" {
			t.Errorf("the slowest name is not the first: %s, %s, %s", first[0].Name, first[1].Name, first[2].Name)
		}
	})
}

// partial is a store that lists only some of its names, and knows nothing of one.
type partial struct {
	*memstore.Store
	listed func(name string) bool
	hidden string
}

func (p *partial) List(ctx context.Context, prefix string) ([]driver.State, error) {
	all, err := p.Store.List(ctx, prefix)
	all = slices.DeleteFunc(all, func(s driver.State) bool { return !p.listed(s.Name) })
	if err == nil {
		err = fmt.Errorf("others are not visible: %w", errors.ErrUnsupported)
	}
	return all, err
}

func (p *partial) Inspect(ctx context.Context, name string) (driver.State, error) {
	if name == p.hidden {
		return driver.State{Name: name, Holds: []driver.Hold{{}}}, fmt.Errorf("not visible: %w", errors.ErrUnsupported)
	}
	return p.Store.Inspect(ctx, name)
}

// If a partial list lacks a name, the Sampler asks for it. The name is unknown if the store cannot
// tell its state.
func TestPartialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &partial{Store: memstore.New(), listed: func(string) bool { return true }}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.Watch("watched"))
		take(t, l, "a")
		b := take(t, l, "b")
		snap := sample(t, s)
		if !errors.Is(snap.Incomplete, errors.ErrUnsupported) || row(t, snap, "watched").State != sampler.Free {
			t.Errorf("incomplete: %v, watched: %s", snap.Incomplete, row(t, snap, "watched").State)
		}
		store.listed, store.hidden = func(string) bool { return false }, "a"
		b.Release()
		later(time.Second)
		snap = sample(t, s)
		if n := row(t, snap, "a"); n.State != sampler.Unknown || n.Why == "" || n.Waiters != -1 || len(n.Holds) != 1 {
			t.Errorf("the store cannot tell whether it is held: %+v", n)
		}
		if slices.ContainsFunc(snap.Names, func(n sampler.Name) bool { return n.Name == "b" }) {
			t.Error("b is free, because Inspect says so, and has a row")
		}
		later(2 * time.Minute)
		sample(t, s)
		if snap := sample(t, s); len(snap.Names) != 1 || snap.Incomplete == nil {
			t.Errorf("later the rows are %+v", snap.Names)
		}
		if n, ok := s.Lookup("a"); !ok || n.State != sampler.Unknown {
			t.Errorf("it is looked up as %q", n.State)
		}
	})
}

// unlisted is a store that can only inspect, and has no queue.
type unlisted struct{ driver.Store }

func (u unlisted) Inspect(ctx context.Context, name string) (driver.State, error) {
	i, _ := driver.As[driver.Admin](u.Store)
	s, err := i.Inspect(ctx, name)
	s.Waiters = -1
	return s, err
}

func (unlisted) List(context.Context, string) ([]driver.State, error) {
	return nil, errors.ErrUnsupported
}

func (unlisted) Break(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

func (u unlisted) Guarantees() driver.Guarantees {
	g := u.Store.Guarantees()
	g.Lacks |= driver.AbilityList | driver.AbilityBreak
	return g
}

func TestStoreThatCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(unlisted{memstore.New()})
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.Watch("a", "b"))
		take(t, l, "a")
		take(t, l, "c")
		snap := sample(t, s)
		if snap.Incomplete == nil || len(snap.Names) != 2 || snap.Names[0].Name != "a" || snap.Names[0].State != sampler.Held {
			t.Errorf("incomplete: %v, rows %+v", snap.Incomplete, snap.Names)
		}
		if a := snap.Names[0]; a.Waiters != -1 || a.Waiting != -1 {
			t.Errorf("the store does not count waiters: %d, %s", a.Waiters, a.Waiting)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		s := sampler.New(l, sampler.MaxNames(100))
		for range 5 {
			var locks []*padlock.Lock
			for i := range 50 {
				locks = append(locks, take(t, l, fmt.Sprint(time.Now().Unix(), "-", i)))
			}
			sample(t, s)
			later(time.Second)
			for _, k := range locks {
				k.Release()
			}
			sample(t, s)
			later(time.Second)
		}
		known := 0
		for second := range int64(20) {
			for i := range 50 {
				if _, ok := s.Lookup(fmt.Sprint(time.Now().Unix()-second, "-", i)); ok {
					known++
				}
			}
		}
		if known != 100 {
			t.Errorf("%d free names are remembered, want the latest 100", known)
		}
		snap := s.Snapshot()
		if len(snap.Groups) != 101 || len(snap.Ended) != 100 {
			t.Errorf("%d groups, %d ends", len(snap.Groups), len(snap.Ended))
		}
		for i := range 250 {
			take(t, l, fmt.Sprint("more/", i))
		}
		if snap := sample(t, s); len(snap.Names) != 250 {
			t.Errorf("%d rows, want one for each name that is held", len(snap.Names))
		}
	})
}

func TestManyNamesMakeItSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		s := sampler.New(l)
		for i := range 5000 {
			take(t, l, fmt.Sprint(i))
		}
		c := sample(t, s).Cost
		if c.Interval != 5*time.Second || c.Calls != 1 || c.Names != 5000 || c.Requests != 5001./5 {
			t.Errorf("5,000 names at 1,000 a second: %+v", c)
		}
	})
}

// Run, Sample and readers at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	s := sampler.New(l, sampler.Interval(time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	for i := range 4 {
		name := fmt.Sprint("job/", i%2)
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = l.Do(ctx, name, func(context.Context) error { return nil })
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				snap := s.Snapshot()
				for _, n := range snap.Names {
					_ = len(n.Ended) + len(n.Holds)
				}
				s.Lookup(name)
			}
		})
	}
	for number := range uint64(50) {
		if _, err := s.Next(ctx, number); err != nil {
			t.Error(err)
		}
		if _, err := s.Sample(ctx); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
}

// slow is a store whose replies take time.
type slow struct {
	*memstore.Store
	takes time.Duration
}

func (s *slow) List(ctx context.Context, prefix string) ([]driver.State, error) {
	select {
	case <-time.After(s.takes):
		return s.Store.List(ctx, prefix)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A slow store is asked less often, but one slow reply alone changes nothing. A sample that takes
// too long has failed.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{memstore.New(), 0}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		for _, c := range []struct{ takes, interval time.Duration }{
			{0, time.Second}, {time.Second, 2 * time.Second}, {time.Second, 50 * time.Second}, {2 * time.Second, 50 * time.Second}, {0, time.Second},
		} {
			store.takes = c.takes
			if cost := sample(t, s).Cost; cost.Interval != c.interval || cost.Took != c.takes {
				t.Errorf("a sample of %s: %+v", c.takes, cost)
			}
		}
		store.takes = time.Hour
		if snap, err := s.Sample(t.Context()); !errors.Is(err, padlock.ErrUnavailable) || snap.Cost.Took != 10*time.Second {
			t.Errorf("the store is mute: %v, %+v", err, snap.Cost)
		}
		store.takes = 2 * time.Second // this is one slow reply, because it is the first after a failure
		if cost := sample(t, s).Cost; cost.Interval != 3*time.Second {
			t.Errorf("the store is back: %+v", cost)
		}
		store.takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := s.Snapshot().Number
		if snap, err := s.Sample(ctx); !errors.Is(err, context.DeadlineExceeded) || snap.Number != before {
			t.Errorf("the caller gave up: %v, number %d after %d", err, snap.Number, before)
		}
	})
}
