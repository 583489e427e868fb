package facetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Goroutines of two Lockers take one of two names in all ways, give up at all times, and lose a few
// of a hundred requests and replies; now and then a Locker is closed under them. No two hold a
// name, fences grow, nobody waits for a lock that nobody has, and nothing is left.
func TestTorture(t *testing.T) {
	for name, kind := range map[string]struct {
		able bool
		opts []padlock.LockerOption
	}{
		"by the store":       {},
		"with every ability": {true, nil},
		"observed":           {true, []padlock.LockerOption{padlock.Observe(padlock.ObserverFunc(func(context.Context, padlock.Event) {}))}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 {
				seed := rand.Uint64()
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 0))
					(&torture{t: t, random: random, server: memstore.New(), opts: kind.opts, able: kind.able}).run()
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

const (
	tortured     = 24 // goroutines
	tortures     = 60 // how many times each goroutine tries to take a lock
	lostOf100    = 3
	longestHold  = 2               // ms
	longestQueue = 8 * time.Second // a small part of the lease
)

type torture struct {
	t      *testing.T
	server *memstore.Store
	opts   []padlock.LockerOption
	able   bool // the server has every ability, and some calls take both names

	mu      sync.Mutex
	random  *rand.Rand
	lockers [2]*padlock.Locker
	waiting map[int]context.CancelFunc
	waits   int
	holders map[string][]*padlock.Lock
	fences  map[string]uint64 // of the last exclusive holder
}

func (x *torture) n(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.random.IntN(n)
}

// ms is a random time in whole milliseconds, so that many things happen at the same moment.
func (x *torture) ms(most int) time.Duration { return time.Duration(x.n(most+1)) * time.Millisecond }

// connect returns a store on a bad network.
func (x *torture) connect() padlock.Store {
	s := relay{connect(x.server)}
	bad := func(ctx context.Context, _ int) error {
		if d := x.ms(2); d > 0 && x.n(4) == 0 {
			if err := sleep(ctx, d); err != nil {
				return errors.Join(padlock.ErrUncertain, err)
			}
		}
		if x.n(100) < lostOf100 {
			return errReset
		}
		return nil
	}
	for _, op := range []string{"acquire", "pass", "release", "extend", "convert", "raise"} {
		s.request(op, bad)
		s.reply(op, bad)
	}
	for _, op := range []string{"pass"} {
		s.reply(op, func(ctx context.Context, n int) error {
			err := bad(ctx, n)
			if x.n(4) == 0 {
				x.giveUp()
				if err == nil && x.n(2) == 0 {
					err = errReset
				}
			}
			return err
		})
	}
	if x.able {
		return able{s, x}
	}
	return s
}

// giveUp makes some of the waiters give up at the same moment.
func (x *torture) giveUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, cancel := range x.waiting {
		if x.random.IntN(2) == 0 {
			cancel()
		}
	}
}

func (x *torture) run() {
	x.waiting = map[int]context.CancelFunc{}
	x.holders, x.fences = map[string][]*padlock.Lock{}, map[string]uint64{}
	for i := range x.lockers {
		x.lockers[i] = padlock.New(x.connect(), x.opts...)
	}
	var all, closing sync.WaitGroup
	for range tortured {
		all.Go(func() {
			for range tortures {
				x.one(&closing)
			}
		})
	}
	all.Wait()
	closing.Wait()
	<-time.After(3 * time.Second) // for the clean-ups
	checkNothingLeft(x.t, x.server)
	for _, l := range x.lockers {
		x.close(l)
	}
}

// one takes a lock, or gives up.
func (x *torture) one(closing *sync.WaitGroup) {
	if x.n(200) == 0 {
		x.replace(closing)
	}
	x.mu.Lock()
	l := x.lockers[max(0, x.random.IntN(4)-2)]
	ctx, cancel := context.WithCancel(context.Background())
	x.waits++
	id := x.waits
	x.waiting[id] = cancel
	x.mu.Unlock()
	name := []string{"a", "b"}[x.n(2)]
	defer cancel()
	var opts []padlock.Option
	switch x.n(4) {
	case 0:
		defer time.AfterFunc(x.ms(30), cancel).Stop()
	case 1:
		opts = append(opts, padlock.Wait(x.ms(30)))
	}
	if x.n(10) == 0 {
		opts = append(opts, padlock.Shared())
	}
	kind := x.n(8)
	if x.able {
		opts, kind = append(opts, x.further()...), x.n(9)
	}
	start := time.Now()
	var h *padlock.Lock
	var err error
	switch kind {
	case 0:
		h, err = l.TryAcquire(ctx, name, opts...)
	case 8:
		x.several(ctx, l, opts)
		err = context.Canceled
	case 1:
		l.Do(ctx, name, func(ctx context.Context) error { sleep(ctx, x.ms(3)); return nil }, opts...)
		err = context.Canceled
	default:
		h, err = l.Acquire(ctx, name, opts...)
	}
	x.mu.Lock()
	delete(x.waiting, id)
	x.mu.Unlock()
	if d := time.Since(start); d > longestQueue {
		x.t.Errorf("a wait of %v: %v", d, err)
	}
	if err == nil {
		x.hold(h)
	}
}

// hold is what a holder does.
func (x *torture) hold(h *padlock.Lock) {
	ctx := h.Context()
	x.enter(h)
	sleep(ctx, x.ms(longestHold))
	switch {
	case x.n(4) > 0:
	case !h.Shared():
		h.Demote(ctx)
	default:
		x.leave(h)
		short, cancel := context.WithTimeout(ctx, x.ms(10))
		if h.Promote(short) == nil {
			x.enter(h)
		}
		cancel()
	}
	x.leave(h)
	h.Release()
}

// enter checks that h is alone, unless Close has released it already.
func (x *torture) enter(h *padlock.Lock) {
	name, fence, shared := h.Name(), h.Fence(), h.Shared()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, other := range x.holders[name] {
		if !(shared && other.Shared()) && other.Remaining() > 0 && h.Remaining() > 0 {
			safety.TwoHold(x.t, "%q: fences %d and %d", name, other.Fence(), fence)
		}
	}
	x.holders[name] = append(x.holders[name], h)
	if shared || h.Remaining() == 0 {
		return
	}
	safety.Rises(x.t, fence, x.fences[name], name)
	x.fences[name] = fence
}

func (x *torture) leave(h *padlock.Lock) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holders[h.Name()] = slices.DeleteFunc(x.holders[h.Name()], func(other *padlock.Lock) bool { return other == h })
}

// replace closes a Locker that is at work, and opens another.
func (x *torture) replace(closing *sync.WaitGroup) {
	fresh, i := padlock.New(x.connect(), x.opts...), x.n(2)
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.lockers[i]
	x.lockers[i] = fresh
	closing.Go(func() { x.close(old) })
}

func (x *torture) close(l *padlock.Locker) {
	if err := l.Close(context.Background()); err != nil && !errors.Is(err, padlock.ErrUncertain) {
		x.t.Error(err)
	}
	if st := l.Stats(); st.Held != 0 || st.Waiting != 0 || st.CleanUps != 0 || st.CleanUpsDropped != 0 {
		x.t.Errorf("%+v", st)
	}
}
