package facetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
)

// relay is a remote that passes names on.
type relay struct{ *remote }

func (r relay) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, err error) {
	c := call{op: "pass", name: next.Name, token: token, next: next.Token.Text(), ttl: next.TTL, shared: next.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { out, g, err = r.Store.Pass(ctx, token, next); return err })
	if err != nil || g.TTL == 0 {
		return out, driver.Grant{}, err
	}
	return out, r.answer(g), nil
}

// Wait hands over holds that need no claim.
func (r relay) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	c := call{op: "wait", name: q.Name, token: q.Token.Text(), shared: q.Shared, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { g, err = r.Store.Wait(ctx, q, reserve); return err })
	return g, err
}

func (r relay) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	c := call{op: "raise", name: name, token: token, ctx: ctx}
	return r.on(c, func(ctx context.Context) error { return r.Store.RaiseFence(ctx, name, token, fence) })
}

// requests returns the number of requests of each kind.
func (r *remote) requests() map[string]int {
	n := map[string]int{}
	for _, c := range r.log() {
		n[c.op]++
	}
	return n
}

// waiter is a goroutine that takes a lock in its turn and keeps it until the test releases it.
type waiter struct {
	got    chan *padlock.Lock // closed after an error
	err    error
	cancel context.CancelFunc
}

func wait(t *testing.T, l *padlock.Locker, opts ...padlock.Option) *waiter {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{got: make(chan *padlock.Lock, 1), cancel: cancel}
	go func() {
		defer close(w.got)
		h, err := l.Acquire(ctx, "job", opts...)
		if w.err = err; err == nil {
			w.got <- h
		}
	}()
	synctest.Wait()
	return w
}

func (w *waiter) lock(t *testing.T) *padlock.Lock {
	t.Helper()
	h := <-w.got
	if h == nil {
		t.Fatal(w.err)
	}
	return h
}

func (w *waiter) has() bool { return len(w.got) > 0 }

// A lock that is released soon goes to the next goroutine with one request, in the order of
// arrival, and its fence grows.
func TestPassingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		var all []*waiter
		for range 20 {
			all = append(all, wait(t, l))
		}
		for i, w := range all {
			fence := h.Fence()
			release(t, h)
			synctest.Wait()
			if !w.has() {
				t.Fatalf("waiter %d has not been called", i)
			}
			next := w.lock(t)
			safety.Rises(t, next.Fence(), fence, i)
			if err := h.Check(t.Context()); !errors.Is(err, padlock.ErrReleased) {
				t.Errorf("Check of a lock that was passed on: %v", err)
			}
			if err := next.Check(t.Context()); err != nil {
				t.Error(err)
			}
			h = next
		}
		release(t, h)
		n := s.requests()
		if n["acquire"] != 1 || n["pass"] != 20 || n["release"] != 1 || n["wait"] != 0 {
			t.Errorf("20 hand-overs among goroutines: %v", n)
		}
	})
}

// If a hold lasts longer, the next goroutine waits in the store's queue, among the waiters of other
// processes. It is one waiter there, however many wait behind it.
func TestParkedForAMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		first, second := wait(t, l), wait(t, l)
		<-time.After(100 * time.Millisecond)
		if n := s.requests(); n["wait"] != 1 {
			t.Fatalf("two goroutines wait for long: %v", n)
		}
		other := wait(t, newLocker(t, relay{connect(s.Store)}))
		release(t, h)
		synctest.Wait()
		if !first.has() {
			t.Fatal("who came first has no turn")
		}
		if n := s.requests(); n["acquire"] != 1 {
			t.Errorf("a hold that needs no claim was claimed: %v", n)
		}
		release(t, first.lock(t))
		synctest.Wait()
		if !other.has() || second.has() {
			t.Error("who came after a goroutine of another process is before it")
		}
		release(t, other.lock(t))
		release(t, second.lock(t))
	})
}

// A waiter of another process gets the lock before the goroutine to which it would be passed on.
func TestPassingOnLetsOthersBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l, elsewhere := newLocker(t, s), newLocker(t, relay{connect(s.Store)})
		h := acquire(t, l, "job")
		here, other := wait(t, l), wait(t, elsewhere)
		release(t, h)
		synctest.Wait()
		if here.has() || !other.has() {
			t.Fatal("a lock was passed on over the head of another process")
		}
		fence := other.lock(t)
		release(t, fence)
		if h := here.lock(t); !safety.Rises(t, h.Fence(), fence.Fence()) {
			t.Error("the fence fell")
		} else {
			release(t, h)
		}
		spent := s.log("pass")[0].next
		again := slices.Concat(s.log("acquire"), s.log("wait"), s.log("pass")[1:])
		if slices.ContainsFunc(again, func(c call) bool { return c.token == spent || c.next == spent }) {
			t.Error("a spent token was sent again")
		}
	})
}

// A goroutine gives up while the lock is on its way to it. It leaves no lock behind, and the next
// one has its turn.
func TestGivingUpWhileTheLockIsPassedOn(t *testing.T) {
	for _, where := range []string{"request", "reply"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job")
				w, next := wait(t, l), wait(t, l)
				map[string]func(string, trouble){"request": s.request, "reply": s.reply}[where]("pass", takes(time.Second))
				go release(t, h)
				<-time.After(500 * time.Millisecond)
				w.cancel()
				synctest.Wait()
				if w.lockless(t); !errors.Is(w.err, context.Canceled) || !errors.Is(w.err, padlock.ErrHeld) {
					t.Errorf("who gave up: %v", w.err)
				}
				release(t, next.lock(t))
				if !free(t, s.remote, "job") {
					t.Error("the name is not free at the end")
				}
			})
		})
	}
}

// The same is true of a goroutine that gives up while the reply to its hand-over is lost.
func TestGivingUpBeforeALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		w := wait(t, l)
		s.reply("pass", func(ctx context.Context, n int) error { return errors.Join(sleep(ctx, time.Second), errReset) })
		go release(t, h)
		synctest.Wait()
		w.cancel()
		w.lockless(t)
		<-time.After(2 * time.Second)
		if !free(t, s.remote, "job") {
			t.Error("the name is not free at the end")
		}
	})
}

// A lock is passed on to a goroutine that has given up and has not left yet. It is released, and
// Close still waits for all calls under way.
func TestGivenToWhoGivesUp(t *testing.T) {
	server.Thorough(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a woken goroutine runs later than the one that wakes it
	given := 0
	for range 50 {
		s := relay{newRemote()}
		other := connect(s.Store)
		l := padlock.New(s)
		h := acquire(t, l, "job")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "job")
			done <- err
		}()
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		runtime.Gosched() // after this the goroutine is parked
		cancel()
		release(t, h)
		if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, padlock.ErrUncertain) {
			t.Fatalf("who gave up: %v", err)
		}
		if l.Stats().Acquired == 2 {
			given++
		}
		closeMeanwhile(t, l)
		if !free(t, other, "job") {
			t.Fatal("the name is not free after Close")
		}
	}
	if given == 0 {
		t.Error("in none of 50 rounds a goroutine that gave up got the lock")
	}
}

// closeMeanwhile closes l while a function runs under another lock, so that Close waits for it.
func closeMeanwhile(t *testing.T, l *padlock.Locker) {
	t.Helper()
	entered, returned := make(chan bool), false
	go l.Do(context.Background(), "other", func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		for range 100 {
			runtime.Gosched()
		}
		returned = true
		return nil
	})
	<-entered
	if err := l.Close(context.Background()); err != nil || !returned {
		t.Errorf("Close: %v; the function has returned: %v", err, returned)
	}
}

func (w *waiter) lockless(t *testing.T) {
	t.Helper()
	if h, ok := <-w.got; ok {
		t.Errorf("got %v", h)
	}
}

// closeWhilePassing closes l while a release waits for the reply to a hand-over. The waiter that
// the lock is meant for gets ErrClosed.
func closeWhilePassing(t *testing.T, l *padlock.Locker, s relay) {
	t.Helper()
	h := acquire(t, l, "job")
	w := wait(t, l)
	s.reply("pass", takes(time.Second))
	go release(t, h)
	synctest.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if w.lockless(t); !errors.Is(w.err, padlock.ErrClosed) {
		t.Errorf("the waiter: %v", w.err)
	}
}

// Close during a hand-over waits for it and leaves no lock behind.
func TestCloseWhileTheLockIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		other := connect(s.Store)
		closeWhilePassing(t, padlock.New(s), s)
		if !free(t, other, "job") {
			t.Error("the name is not free after Close")
		}
	})
}

// The reply to a hand-over is lost: the release is repeated and returns the truth, and the waiter
// has its turn.
func TestPassingOnWithoutAReply(t *testing.T) {
	for where, lose := range map[string]func(relay){
		"request":     func(s relay) { s.request("pass", lost) },
		"reply":       func(s relay) { s.reply("pass", lost) },
		"unavailable": func(s relay) { s.request("pass", fails(padlock.ErrUnavailable)) },
		"silent":      func(s relay) { s.request("pass", deaf) },
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job")
				first, second := wait(t, l), wait(t, l)
				lose(s)
				start := time.Now()
				release(t, h)
				h = first.lock(t)
				if d := time.Since(start); d > 10*time.Second {
					t.Errorf("the next one had its turn after %v", d)
				}
				if err := h.Check(t.Context()); err != nil {
					t.Error(err)
				}
				release(t, h)
				release(t, second.lock(t))
				<-time.After(time.Second)
				if !free(t, s.remote, "job") {
					t.Error("the name is not free at the end")
				}
			})
		})
	}
}

// Only a plain exclusive lock that is released without a cool-down is passed on.
func TestNotPassedOn(t *testing.T) {
	atOnce := func(t *testing.T, h *padlock.Lock) { release(t, h) }
	for what, c := range map[string]struct {
		holder, waiter []padlock.Option
		release        func(*testing.T, *padlock.Lock)
	}{
		"a shared hold":   {[]padlock.Option{padlock.Shared()}, nil, atOnce},
		"a shared waiter": {nil, []padlock.Option{padlock.Shared()}, atOnce},
		"a cool-down":     {nil, nil, func(t *testing.T, h *padlock.Lock) { release(t, h, padlock.CoolDown(time.Second)) }},
		"a hold at least": {[]padlock.Option{padlock.HoldAtLeast(time.Minute)}, nil, atOnce},
		"an exported hold": {nil, nil, func(t *testing.T, h *padlock.Lock) {
			if _, err := h.Export(t.Context()); err != nil {
				t.Fatal(err)
			}
			release(t, h)
		}},
		"a demoted hold": {nil, nil, func(t *testing.T, h *padlock.Lock) {
			if err := h.Demote(t.Context()); err != nil {
				t.Fatal(err)
			}
			release(t, h)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job", c.holder...)
				w := wait(t, l, c.waiter...)
				c.release(t, h)
				h = w.lock(t)
				if n := s.requests(); n["pass"] > 0 || n["release"] != 1 {
					t.Errorf("%v", n)
				}
				release(t, h)
			})
		})
	}
}

// A lock that is lost is not passed on, and the waiter that is parked behind it learns that at
// once.
func TestParkedBehindALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		h := acquire(t, l, "job", padlock.TTL(10*time.Second))
		w := wait(t, l, padlock.TTL(10*time.Second))
		if _, err := l.Break(t.Context(), "job", h.Fence()); !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		if _, err := s.Store.Break(t.Context(), "job", h.Fence()); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(t.Context()); !errors.Is(err, padlock.ErrLost) {
			t.Fatal(err)
		}
		start := time.Now()
		next := w.lock(t)
		if d := time.Since(start); d > 0 {
			t.Errorf("who was parked behind it had its turn after %v", d)
		}
		if err := h.Release(); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Release of a lost lock: %v", err)
		}
		if err := next.Check(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, next)
	})
}

// Thousands of goroutines come, give up and go while locks are passed on. Two of them never hold
// the same name, fences grow, and no lock is left.
func TestStormOfPassingOn(t *testing.T) {
	s := relay{newRemote()}
	lockers := []*padlock.Locker{newLocker(t, s), newLocker(t, relay{connect(s.Store)})}
	var mu sync.Mutex
	var last uint64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for j := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*j)%40)*time.Millisecond)
				h, err := lockers[i%2].Acquire(ctx, "job")
				if err == nil {
					if !mu.TryLock() {
						safety.TwoHold(t, "the lock has a holder already")
					} else {
						safety.Rises(t, h.Fence(), last)
						last = h.Fence()
						mu.Unlock()
					}
					release(t, h)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for _, l := range lockers {
		h := acquire(t, l, "job")
		release(t, h)
		if st := l.Stats(); st.Held != 0 || st.Waiting != 0 || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
	}
}

func TestStoreOfThisProcessPassesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		h := acquire(t, l, "job")
		w := wait(t, l)
		release(t, h)
		if next := w.lock(t); !safety.Rises(t, next.Fence(), h.Fence()) {
			t.Error("the fence did not grow")
		} else {
			release(t, next)
		}
	})
}

// A store that lacks Pass is not asked to pass a lock on.
func TestStoreThatDoesNotPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		s.guarantees.Lacks |= driver.AbilityPasser
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		next := wait(t, l)
		release(t, h)
		release(t, next.lock(t))
		if n := s.requests(); n["pass"] != 0 || n["release"] != 2 {
			t.Errorf("the requests: %v", n)
		}
	})
}
