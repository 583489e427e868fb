package facetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

const (
	rivals  = 8
	inQueue = 3 * time.Millisecond // after it, a large call has its place in the queue
	work    = 200 * time.Millisecond
)

// rival is a process. After its death, its requests reach nobody, and another process begins.
type rival struct {
	*remote
	locker *padlock.Locker
	dead   chan struct{}
}

func newRival(server *memstore.Store, oneStep bool, death time.Duration) *rival {
	p := &rival{remote: connect(server), dead: make(chan struct{})}
	for _, op := range []string{"acquire", "slot", "wait", "extend", "release"} {
		p.request(op, func(ctx context.Context, n int) error {
			select {
			case <-p.dead:
				return silent(ctx, n)
			default:
				return sleep(ctx, time.Millisecond)
			}
		})
	}
	var s driver.Store = p.remote
	if oneStep {
		s = slotRemote{p.remote}
	}
	p.locker = padlock.New(s, padlock.TTL(2*time.Second))
	time.AfterFunc(death, func() { close(p.dead) })
	return p
}

// weighing is a call that waits for permits.
type weighing struct {
	weight        int
	begun, served time.Time
}

// race has all the calls of a test that were served, in that order.
type race struct {
	mu     sync.Mutex
	served []*weighing
}

func (w *race) note(c *weighing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.served = time.Now()
	w.served = append(w.served, c)
}

// run makes the calls of one process after the other, until there were enough.
func (w *race) run(t *testing.T, server *memstore.Store, oneStep bool, r *rand.Rand) {
	var p *rival
	var end sync.WaitGroup
	defer end.Wait()
	for range 20 {
		if p == nil {
			p = newRival(server, oneStep, time.Duration(1+r.IntN(30))*time.Second)
		}
		me, c, busy := p, &weighing{weight: r.IntN(9), begun: time.Now()}, work+time.Duration(r.IntN(500))*time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			takeAny(ctx, me.locker, 10, c.weight, func(context.Context) error {
				w.note(c)
				return sleep(ctx, busy)
			})
		}()
		select {
		case <-done:
			cancel()
			continue
		case <-me.dead:
		}
		end.Go(func() { // nobody ends what is dead, until the test is over
			<-time.After(time.Hour)
			cancel()
			<-done
			me.locker.Close(ctx)
		})
		p = nil
	}
	if p != nil {
		p.locker.Close(t.Context())
	}
}

// TestWaitOfALargeRequestIsBounded counts the calls that are served between the beginning of a large call
// that waits and its grant, while processes die. There is at most one of each other process, because
// nobody who comes later is served before it.
func TestWaitOfALargeRequestIsBounded(t *testing.T) {
	for seed := range uint64(5) {
		for _, oneStep := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, one step: %v", seed, oneStep), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, w := memstore.New(), &race{}
					var wg sync.WaitGroup
					for i := range uint64(rivals) {
						wg.Go(func() { w.run(t, server, oneStep, rand.New(rand.NewPCG(seed, i))) })
					}
					wg.Wait()
					<-time.After(time.Hour) // the last requests of dead processes end
					w.check(t)
				})
			})
		}
	}
}

func (w *race) check(t *testing.T) {
	large, most, later := 0, 0, 0
	for i, c := range w.served {
		if c.weight < 8 {
			continue
		}
		large++
		before, after := 0, 0
		for _, o := range w.served[:i] {
			if o.served.After(c.begun) {
				before++
			}
			if o.begun.After(c.begun.Add(inQueue)) {
				after++
			}
		}
		most, later = max(most, before), max(later, after)
	}
	if large == 0 || most >= rivals || later > 0 {
		t.Errorf("before one of %d large calls, %d others of %d processes were served, and %d that came later", large, most, rivals, later)
	}
	t.Logf("before one of %d large calls, at most %d others of %d processes were served", large, most, rivals)
}

// A call that wants more than half of the permits has its place before it looks for them. So nobody who
// begins while it looks is served before it.
func TestLargeRequestHasItsPlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, w := memstore.New(), &race{}
		held, err := newLocker(t, server.Open()).AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(10), padlock.Weight(3))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, weight := range []int{8, 0, 1, 0, 2} {
			p := newRival(server, true, time.Hour)
			wg.Go(func() {
				if err := takeAny(t.Context(), p.locker, 10, weight, func(context.Context) error { w.note(&weighing{weight: weight}); return nil }); err != nil {
					t.Error(err)
				}
				p.locker.Close(t.Context())
			})
			<-time.After(2 * time.Millisecond) // it finds permits, and not all that it wants
		}
		if err := held.Release(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if len(w.served) != 5 || w.served[0].weight != 8 {
			t.Errorf("a call for %d permits was served first", w.served[0].weight)
		}
	})
}

// If the first of the waiting calls dies, the others wait no longer than for its lease.
func TestDeathOfALargeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		l := newLocker(t, server.Open())
		acquire(t, l, "gpu", padlock.Slots(3))
		dies := newRival(server, true, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			takeAny(ctx, dies.locker, 3, 3, func(context.Context) error { t.Error("all permits"); return nil }) // keeps two, and waits
		}()
		<-dies.dead
		k, err := l.Acquire(t.Context(), "gpu", padlock.Slots(3), padlock.Wait(2*time.Second)) // its lease
		if err != nil {
			t.Fatal(err)
		}
		release(t, k)
		<-time.After(time.Hour)
		cancel()
		<-done
		dies.locker.Close(ctx)
	})
}
