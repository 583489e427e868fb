package sampler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/sampler"
	"github.com/padlock-go/padlock/stores/memstore"
)

// stalling is a store on a server that sometimes takes long to reply. As with Redis and SQL, the
// client converts the times of a reply when the reply arrives. So a reply that is late makes all
// times late.
type stalling struct {
	*memstore.Store
	late   time.Duration
	unlike func(*driver.State) // changes what a reply says, or nil
}

func (s *stalling) List(ctx context.Context, prefix string) ([]driver.State, error) {
	states, err := s.Store.List(ctx, prefix)
	late := s.late
	select {
	case <-time.After(late):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for i := range states {
		for j := range states[i].Holds {
			h := &states[i].Holds[j]
			for _, t := range []*time.Time{&h.Since, &h.Until, &h.PlannedEnd} {
				if !t.IsZero() {
					*t = t.Add(late)
				}
			}
		}
		if s.unlike != nil {
			s.unlike(&states[i])
		}
	}
	return states, err
}

// noFences makes the replies look like those of a store without fences.
func noFences(s *driver.State) { s.Fence = 0 }

// noBeginnings makes the replies look like those about locks of PHP: neither a fence nor the time
// of the grant is known.
func noBeginnings(s *driver.State) {
	s.Fence = 0
	for i := range s.Holds {
		s.Holds[i].Since, s.Holds[i].PlannedEnd = time.Time{}, time.Time{}
	}
}

// A store that stalls again and again ends no lock. Healthy locks are not stuck, whatever the
// replies say about them.
func TestStallsEndNoLock(t *testing.T) {
	for name, c := range map[string]struct {
		take   padlock.Option
		unlike func(*driver.State)
	}{
		"fences":       {take: padlock.TTL(30 * time.Second)},
		"short leases": {take: padlock.TTL(6 * time.Second)},
		"shared":       {take: padlock.Shared()},
		"no fences":    {take: padlock.TTL(30 * time.Second), unlike: noFences},
		"PHP":          {take: padlock.TTL(30 * time.Second), unlike: noBeginnings},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &stalling{Store: memstore.New(), unlike: c.unlike}
				l := padlock.New(store)
				defer l.Close(t.Context())
				s := sampler.New(l)
				for i := range 30 {
					k := take(t, l, fmt.Sprintf("job/%d", i), c.take)
					defer k.Release()
					later(50 * time.Millisecond)
				}
				for i := range 60 {
					if store.late = 0; i%3 == 1 {
						store.late = 1300 * time.Millisecond
					}
					snap := sample(t, s)
					expectHealthy(t, snap, i)
					later(time.Second)
				}
			})
		})
	}
}

func expectHealthy(t *testing.T, snap *sampler.Snapshot, number int) {
	t.Helper()
	g := snap.Groups[0]
	if g.Grants != 0 || g.Usual.Count != 0 || g.Missed != 0 || g.Expired != 0 || g.Stuck != 0 || len(snap.Ended) != 0 || len(snap.Names) != 30 {
		t.Fatalf("sample %d of 30 healthy locks: %d rows, %+v, ends %+v", number, len(snap.Names), g, snap.Ended)
	}
}

// A lock that nobody renews is not called late because a reply was late: "padlock acquire" and PHP
// take such locks.
func TestStallIsNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		hold(t, store, "deploy", "d", 10*time.Second, 0)
		for i := range 6 {
			if store.late = 0; i == 2 {
				store.late = 900 * time.Millisecond
			}
			if n := row(t, sample(t, s), "deploy"); len(n.Stuck) > 0 || n.Holds[0].Renewals != 0 {
				t.Errorf("sample %d: nobody ever renewed the lock: %+v", i, n)
			}
			later(time.Second)
		}
	})
}

// While replies are late, ends that are certain are still seen: the fence differs.
func TestEndsBetweenStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		sample(t, s)
		for i := range 10 {
			store.late = time.Duration(i%2) * 1300 * time.Millisecond
			k := take(t, l, "job")
			later(100 * time.Millisecond)
			sample(t, s)
			k.Release()
		}
		if n, _ := s.Lookup("job"); n.Grants != 10 || len(n.Ended) != 8 {
			t.Errorf("10 holds of one process: %d grants, %d ends are kept", n.Grants, len(n.Ended))
		}
	})
}

// Readers of one process differ only in the time at which they began.
func TestReadersOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: memstore.New()}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		var readers []*padlock.Lock
		for range 3 {
			readers = append(readers, take(t, l, "report", padlock.Shared()))
			later(10 * time.Second)
		}
		sample(t, s)
		later(time.Second)
		readers[1].Release() // it began 20 s before the sample
		snap := sample(t, s)
		if len(snap.Ended) != 1 || snap.Ended[0].Held.Round(time.Second) != 21*time.Second && snap.Ended[0].Held.Round(time.Second) != 20*time.Second {
			t.Errorf("the second reader held the lock for 21 s: %+v", snap.Ended)
		}
		if n := row(t, snap, "report"); len(n.Holds) != 2 || n.Grants != 0 {
			t.Errorf("two readers are left: %+v", n)
		}
	})
}

// The time of a grant that a late reply has shown is corrected by the next reply.
func TestLateReplyIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalling{Store: memstore.New(), late: 2 * time.Second}
		l := padlock.New(store)
		defer l.Close(t.Context())
		s := sampler.New(l)
		began := time.Now()
		k := take(t, l, "job")
		defer k.Release()
		sample(t, s)
		store.late = 0
		sample(t, s)
		store.late = 2 * time.Second
		if h := row(t, sample(t, s), "job").Holds[0]; !h.Since.Equal(began) {
			t.Errorf("the hold began at %v, the row says %v", began, h.Since)
		}
	})
}
