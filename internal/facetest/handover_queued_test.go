package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// queueRelay is a relay that never passes a lock on to a waiter of its own process, and gives it a
// place in the queue instead.
type queueRelay struct{ relay }

func (r queueRelay) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, queued bool, err error) {
	c := call{op: "pass", name: next.Name, token: token, next: next.Token, ttl: next.TTL, ctx: ctx}
	err = r.on(c, func(ctx context.Context) error { out, err = r.Store.Release(ctx, next.Name, token, 0); return err })
	return out, g, err == nil, err
}

// waitsBehind lets a waiter of l wait while the lock of l goes to another process. It returns that
// waiter, and the lock of the other process.
func waitsBehind(t *testing.T, s queueRelay, l *padlock.Locker, also func(*waiter)) (*waiter, *padlock.Lock) {
	t.Helper()
	h := acquire(t, l, "job")
	here, other := wait(t, l), wait(t, newLocker(t, relay{connect(s.Store)}))
	also(here)
	release(t, h)
	synctest.Wait()
	if here.has() || !other.has() {
		t.Fatal("the lock did not go to the other process")
	}
	return here, other.lock(t)
}

// A waiter that has got a place in the queue waits there with the token of the place.
func TestQueuedByARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queueRelay{relay{newRemote()}}
		here, held := waitsBehind(t, s, newLocker(t, s), func(*waiter) {})
		release(t, held)
		release(t, here.lock(t))
		token := s.log("pass")[0].next
		if waits := s.log("wait"); len(waits) != 1 || waits[0].token != token {
			t.Errorf("the place has the token %q, and these are the waits: %+v", token, waits)
		}
		if n := s.requests(); n["acquire"] != 1 || n["pass"] != 1 || n["release"] != 1 {
			t.Errorf("the requests of the process: %v", n)
		}
	})
}

// A waiter that gives up also gives up the place that it has got.
func TestGivingUpAPlace(t *testing.T) {
	for what, also := range map[string]func(s queueRelay, w *waiter){
		"while it waits in the queue": func(queueRelay, *waiter) {},
		"before the reply": func(s queueRelay, w *waiter) {
			s.reply("pass", func(context.Context, int) error { w.cancel(); return nil })
		},
		"before the reply, which takes long": func(s queueRelay, w *waiter) {
			s.reply("pass", func(ctx context.Context, _ int) error { w.cancel(); return sleep(ctx, time.Second) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := queueRelay{relay{newRemote()}}
				here, held := waitsBehind(t, s, newLocker(t, s), func(w *waiter) { also(s, w) })
				here.cancel()
				if here.lockless(t); !errors.Is(here.err, context.Canceled) {
					t.Errorf("the waiter that gave up: %v", here.err)
				}
				<-time.After(time.Second)
				token, released := s.log("pass")[0].next, false
				for _, c := range s.log("release") {
					released = released || c.token == token
				}
				if !released {
					t.Error("the place was not given up")
				}
				release(t, held)
				if !free(t, s.remote, "job") {
					t.Error("the name is not free at the end")
				}
			})
		})
	}
}

// Close gives up the place of a waiter.
func TestCloseGivesUpAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queueRelay{relay{newRemote()}}
		other := connect(s.Store)
		closeWhilePassing(t, padlock.New(s), s.relay)
		released := false
		for _, c := range s.log("release") {
			released = released || c.token == s.log("pass")[0].next
		}
		if !released || !free(t, other, "job") {
			t.Error("the place was not given up")
		}
	})
}

// emptyRelay is a queueRelay whose first Wait returns the zero Grant, after which it keeps nothing.
type emptyRelay struct{ queueRelay }

func (r emptyRelay) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	if len(r.log("wait")) > 0 {
		return r.queueRelay.Wait(ctx, q, reserve)
	}
	return g, r.on(call{op: "wait", name: q.Name, token: q.Token, ctx: ctx}, func(context.Context) error { return nil })
}

// When Wait has returned without an error, the store keeps no place that a clean-up would have to
// give up.
func TestWaitEndsAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := emptyRelay{queueRelay{relay{newRemote()}}}
		here, held := waitsBehind(t, s.queueRelay, newLocker(t, s), func(*waiter) {})
		release(t, held)
		release(t, here.lock(t))
		<-time.After(time.Minute)
		if n := s.requests(); n["pass"] != 1 || n["wait"] != 2 || n["release"] != 1 {
			t.Errorf("the requests of the process: %v", n)
		}
	})
}

// badRelay reports a place and an error.
type badRelay struct{ queueRelay }

func (r badRelay) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, bool, error) {
	r.queueRelay.Pass(ctx, token, next)
	return driver.OutcomeGone, driver.Grant{}, true, errReset
}

// A lost reply never counts as a place: the waiter begins a clean-up and uses a new token.
func TestLostReplyIsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := badRelay{queueRelay{relay{newRemote()}}}
		here, held := waitsBehind(t, s.queueRelay, newLocker(t, s), func(*waiter) {})
		spent := s.log("pass")[0].next
		release(t, held)
		release(t, here.lock(t))
		for _, c := range s.log("wait") {
			if c.token == spent {
				t.Error("the waiter uses a token whose place is not known")
			}
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
