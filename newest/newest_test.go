package newest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/stores/memstore"
)

// newLocker is one process.
func newLocker(t *testing.T, s driver.Store) *padlock.Locker {
	l := padlock.New(s, padlock.KeepStoreOpen())
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// A deploy is a caller of a test.
type deploy struct {
	cancel context.CancelFunc
	result chan error
	ran    atomic.Bool
}

// arrive starts a caller, and returns when it waits.
func arrive(t *testing.T, l *padlock.Locker, work time.Duration) *deploy {
	ctx, cancel := context.WithCancel(t.Context())
	d := &deploy{cancel: cancel, result: make(chan error, 1)}
	go func() {
		d.result <- newest.Do(ctx, l, "deploy", func(context.Context) error {
			d.ran.Store(true)
			<-time.After(work)
			return nil
		})
	}()
	synctest.Wait()
	return d
}

// TestNewest: of those who wait, the newest runs, and the others are dropped when it has got the lock.
func TestNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var all []*deploy
		for range 5 {
			all = append(all, arrive(t, newLocker(t, s), time.Minute))
			<-time.After(time.Second)
		}
		for i, d := range all[1:4] {
			select {
			case err := <-d.result:
				t.Errorf("caller %d is dropped before a newer one has the lock: %v", i+1, err)
			default:
			}
		}
		if err := <-all[0].result; err != nil {
			t.Error(err)
		}
		for i, d := range all[1:4] {
			if err := <-d.result; !errors.Is(err, newest.ErrSuperseded) {
				t.Errorf("caller %d: %v", i+1, err)
			}
		}
		if all[4].result == nil || !all[4].ran.Load() {
			t.Error("the newest does not run while the others are dropped")
		}
		if err := <-all[4].result; err != nil {
			t.Error(err)
		}
	})
}

// TestNewestIsCancelled: if the newest gives up, the one before it runs.
func TestNewestIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		first, second, third := arrive(t, newLocker(t, s), 10*time.Second), arrive(t, newLocker(t, s), time.Second), arrive(t, newLocker(t, s), time.Second)
		third.cancel()
		if err := <-third.result; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, d := range []*deploy{first, second} {
			if err := <-d.result; err != nil || !d.ran.Load() {
				t.Error(err)
			}
		}
	})
}

// TestNewestDies: the mark of a newer caller that was killed holds nobody up for longer than its lease.
func TestNewestDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		first, second := arrive(t, newLocker(t, s), time.Second), arrive(t, newLocker(t, s), time.Second)
		r := driver.Request{Name: fast.NewestName("deploy", "waiting"), Token: driver.TokenOf("dead"), Shared: true, TTL: 30 * time.Second, Holder: driver.Holder{Label: "8999999999999999"}}
		if _, err := s.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, d := range []*deploy{first, second} {
			if err := <-d.result; err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d < 30*time.Second || d > 35*time.Second {
			t.Errorf("the caller before the dead one is done after %v", d)
		}
	})
}

// TestNewestTakesOver: break beside a newest caller that waits is a take-over without a window. The holder
// does not leave, and an older caller has waited for longer.
func TestNewestTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		l := newLocker(t, s)
		if _, err := newest.Acquire(t.Context(), l, "deploy"); err != nil {
			t.Fatal(err)
		}
		older := arrive(t, newLocker(t, s), time.Second)
		<-time.After(time.Second)
		newer := arrive(t, newLocker(t, s), time.Second)
		<-time.After(time.Second)
		state, err := l.Inspect(t.Context(), "deploy")
		if err == nil {
			_, err = l.Break(t.Context(), "deploy", state.Fence)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-newer.result; err != nil {
			t.Errorf("the newer caller: %v", err)
		}
		if err := <-older.result; !errors.Is(err, newest.ErrSuperseded) || older.ran.Load() {
			t.Errorf("the older caller: %v", err)
		}
	})
}

// TestAsksTheHolder: the holder learns that a newer caller has arrived.
func TestAsksTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		l := newLocker(t, s)
		lock, err := newest.Acquire(t.Context(), l, "deploy")
		if err != nil {
			t.Fatal(err)
		}
		asked := padlock.Asked(lock.Context())
		next := arrive(t, newLocker(t, s), 0)
		<-asked
		if err := errors.Join(lock.Release(), <-next.result); err != nil {
			t.Error(err)
		}
	})
}

// TestNewestAtRandom: callers come and go at random. At most one runs at a time, what runs is never older
// than what has run, and the last one that lives runs.
func TestNewestAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { atRandom(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func atRandom(t *testing.T, random *rand.Rand) {
	s := memstore.New()
	lockers := []*padlock.Locker{newLocker(t, s), newLocker(t, s), newLocker(t, s)}
	var running, ran atomic.Int64
	var all sync.WaitGroup
	last := make(chan error, 1)
	const callers = 40
	for i := range int64(callers) {
		ctx, cancel := context.WithCancel(t.Context())
		if i < callers-1 && random.IntN(3) == 0 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(20*time.Second))))
		}
		work := time.Duration(random.Int64N(int64(8 * time.Second)))
		l := lockers[random.IntN(3)]
		all.Go(func() {
			defer cancel()
			err := newest.Do(ctx, l, "deploy", func(context.Context) error {
				if n := running.Add(1); n != 1 {
					safety.TwoHold(t, "%d callers run", n)
				}
				if before := ran.Swap(i); before > i {
					t.Errorf("caller %d runs after %d", i, before)
				}
				<-time.After(work)
				running.Add(-1)
				return nil
			})
			if err != nil && !errors.Is(err, newest.ErrSuperseded) && ctx.Err() == nil {
				t.Errorf("caller %d: %v", i, err)
			}
			if i == callers-1 {
				last <- err
			}
		})
		<-time.After(time.Duration(random.Int64N(int64(3*time.Second))) + 10*time.Millisecond)
	}
	if err := <-last; err != nil || ran.Load() != callers-1 {
		t.Errorf("the last one: %v; %d ran last", err, ran.Load())
	}
	all.Wait()
}

// TestNewestOfTheBlind: a caller that could not look while a newer one ran, and for longer than that is
// recorded, is dropped.
func TestNewestOfTheBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		first := arrive(t, newLocker(t, s), 5*time.Second)
		b := &blind{Store: s}
		old := arrive(t, newLocker(t, b), time.Second)
		next := arrive(t, newLocker(t, s), time.Second)
		<-time.After(5*time.Second + time.Millisecond) // the old one has given its turn up
		b.shut.Store(true)
		if err := errors.Join(<-first.result, <-next.result); err != nil {
			t.Error(err)
		}
		<-time.After(70 * time.Second)
		b.shut.Store(false)
		if err := <-old.result; !errors.Is(err, newest.ErrSuperseded) || old.ran.Load() {
			t.Errorf("%v, want that it was dropped", err)
		}
	})
}

// blind shows nothing while it is shut.
type blind struct {
	*memstore.Store
	shut atomic.Bool
}

func (b *blind) Inspect(ctx context.Context, name string) (driver.State, error) {
	if b.shut.Load() {
		return driver.State{}, driver.ErrUnavailable
	}
	return b.Store.Inspect(ctx, name)
}

func TestNewestNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, bare{memstore.New()})
		if _, err := newest.Acquire(t.Context(), l, "deploy"); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
}

// bare has no shared locks.
type bare struct{ *memstore.Store }

func (b bare) Guarantees() driver.Guarantees {
	g := b.Store.Guarantees()
	g.Shared = false
	return g
}

// TestNewestOverHTTP: a padlock server adds the client to each label.
func TestNewestOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := labelling{memstore.New()}
		var all []*deploy
		for range 4 {
			all = append(all, arrive(t, newLocker(t, s), time.Second))
		}
		for i, d := range all {
			want := error(nil)
			if i == 1 || i == 2 {
				want = newest.ErrSuperseded
			}
			if err := <-d.result; !errors.Is(err, want) {
				t.Errorf("caller %d: %v, want %v", i, err, want)
			}
		}
	})
}

type labelling struct{ *memstore.Store }

func (l labelling) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	r.Holder.Label += " web-3/7 (10.0.0.3)"
	return l.Store.Acquire(ctx, r)
}
