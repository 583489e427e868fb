package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// testWaiter is a waiter. It waits in its own goroutine. The two numbers may be read only after the
// answer has come.
type testWaiter struct {
	cl      *client
	req     driver.Request
	cancel  context.CancelFunc
	done    chan answer
	returns int // how often Wait returned
	quick   int // how often Wait returned without a grant after less than quickReturn
}

type answer struct {
	l     *lease // set if the waiter has the name
	grant driver.Grant
	err   error
}

// waitOnce calls Wait once.
func (c *check) waitOnce(cl *client, r driver.Request, reserve bool) *testWaiter {
	return c.startWaiter(cl, r, func(ctx context.Context, t *testWaiter) answer {
		sent := time.Now()
		g, err := cl.Wait(ctx, r, reserve)
		return answer{l: c.leased(cl, r, g, sent), grant: g, err: err}
	})
}

// waitOn calls Wait until it fails or hands the name over. Wait may also return without handing the
// name over.
func (c *check) waitOn(cl *client, r driver.Request) *testWaiter {
	return c.startWaiter(cl, r, func(ctx context.Context, t *testWaiter) answer {
		for range maxReturns {
			sent := time.Now()
			g, err := cl.Wait(ctx, r, true)
			if err != nil || handed(g) {
				return answer{l: c.leased(cl, r, g, sent), grant: g, err: err}
			}
			r.Token = driver.TokenOf(newToken())
		}
		return answer{err: errSpinning}
	})
}

// waitForName starts a waiter that does what package padlock does for a caller: it makes a try, and
// waits if the name is held. Then it claims the name or tries again, until it has the name.
func (c *check) waitForName(cl *client, r driver.Request, reserve bool) *testWaiter {
	return c.startWaiter(cl, r, func(ctx context.Context, t *testWaiter) answer {
		var g driver.Grant
		for ; t.returns < maxReturns; t.returns++ {
			sent := time.Now()
			hold, err := cl.Acquire(ctx, r)
			if err == nil {
				return answer{l: c.leased(cl, r, hold, sent), grant: hold}
			}
			if errors.Is(err, driver.ErrHeld) {
				if handed(g) { // but the waiter came too late to claim it
					c.took(driver.MaxReservation)
				}
				r.Token = driver.TokenOf(newToken()) // the old one is spent
				began := time.Now()
				g, err = cl.Wait(ctx, r, reserve)
				if !handed(g) && time.Since(began) < quickReturn {
					t.quick++
				}
			}
			if err != nil {
				return answer{err: err}
			}
			if !handed(g) {
				r.Token = driver.TokenOf(newToken())
			}
		}
		return answer{err: errSpinning}
	})
}

// quickReturn is less than a Wait takes that waits at all.
const quickReturn = 2 * time.Millisecond

// maxReturns is how often Wait may return without handing the name over. Without a limit, a Wait
// that never blocks would keep a processor busy for ever.
const maxReturns = 5_000

var errSpinning = fmt.Errorf("Wait returned %d times though the name was not free", maxReturns)

func (c *check) startWaiter(cl *client, r driver.Request, f func(context.Context, *testWaiter) answer) *testWaiter {
	ctx, cancel := context.WithCancel(c.ctx)
	t := &testWaiter{cl: cl, req: r, cancel: cancel, done: make(chan answer, 1)}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		t.done <- f(ctx, t)
	}()
	c.later(func() {
		cancel()
		<-finished
	})
	return t
}

// behindDead waits until the waiter has the name, even though a waiter ahead of it died.
func (c *check) behindDead(t *testWaiter, what string) {
	c.settled(awaitFor(c, c.deadWaiter()+c.patience, t.done, what), what)
}

// awaitAnswer waits for the waiter's result.
func (c *check) awaitAnswer(t *testWaiter, what string) answer { return await(c, t.done, what) }

// notOvertaken waits for the waiter's result, while others wait behind it. On a slow machine, a
// waiter may lose its turn because it claims its reservation too late.
func (c *check) notOvertaken(t *testWaiter, what string, behind ...*testWaiter) {
	inTime := c.poll(c.patience, func() bool { return !t.waiting() })
	if !inTime && slices.ContainsFunc(behind, func(b *testWaiter) bool { return !b.waiting() }) {
		c.failLate(driver.MaxReservation, "%s: a waiter behind it had its turn, and it had none within %v", what, c.patience)
	}
}

// awaitHold waits until the waiter has the name.
func (c *check) awaitHold(t *testWaiter, what string) *lease {
	return c.settled(c.awaitAnswer(t, what), what)
}

func (c *check) settled(a answer, what string) *lease {
	if a.err != nil {
		c.failf("%s: %v", what, a.err)
	}
	return a.l
}

// deadWaiter is how long a waiter that does nothing may delay the waiters behind it.
func (c *check) deadWaiter() time.Duration {
	if c.g.DeadWaiter > 0 {
		return c.g.DeadWaiter
	}
	return driver.MaxReservation
}

// waiting reports whether the waiter is still waiting.
func (t *testWaiter) waiting() bool { return len(t.done) == 0 }

// waiters returns how many waiters the name has, or -1 if the store does not know.
func (c *check) waiters(name string) int {
	if c.can(driver.AbilityInspect) {
		if s, err := c.b.Inspect(c.ctx, name); err == nil {
			return s.Waiters
		}
		return -1
	}
	var held *driver.HeldError
	if _, err := c.b.Acquire(c.ctx, c.request(name)); errors.As(err, &held) {
		return held.Waiters
	}
	return -1
}

// queued waits until n waiters are in the queue. If the store does not count its waiters, it just
// waits for some time. It returns how much time the waiters had.
func (c *check) queued(name string, n int) time.Duration {
	if c.waiters(name) < 0 {
		c.settle()
		return c.unit
	}
	c.poll(c.patience/4, func() bool { return c.waiters(name) >= n })
	return c.patience / 4
}

// settle gives a waiter time to start waiting. It is for waiters that take no place in the queue
// and so cannot be counted.
func (c *check) settle() { c.nap(c.unit) }
