package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var giveUpCases = []testCase{
	{
		name:   "giveup/beside-a-long-wait",
		clause: "A waiter that gave up delays nobody, even if it gave up while it joined the queue, and its process goes on waiting for another name.",
		about:  "Waiter.Wait",
		needs:  []need{waits},
		f:      func(c *check) { c.giveUp(func(rounds func()) { rounds() }) },
	},
	{
		name:   "giveup/silence",
		clause: "A waiter that gave up while the server was silent delays nobody afterwards, even if its process goes on waiting for another name.",
		about:  "Waiter.Wait",
		needs:  []need{waits, pause},
		alone:  true,
		f: func(c *check) {
			c.giveUp(func(rounds func()) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					rounds()
				}()
				for {
					select {
					case <-done:
						return
					default:
					}
					resume, err := c.h.Pause()
					if err != nil {
						c.failf("Harness.Pause: %v", err)
					}
					c.nap(50 * time.Millisecond)
					if err := resume(); err != nil {
						c.failf("the resume of Harness.Pause: %v", err)
					}
					c.nap(time.Duration(rand.N(20)) * time.Millisecond)
				}
			})
		},
	},
}

// giveUp lets one process wait for a name all the time. In the same process, many
// waiters for other names give up soon, and many of them while their request is on its way. Then
// the other names are released, and another process can take them.
func (c *check) giveUp(during func(func())) {
	others, waits := 40, 100
	if c.h.Slow {
		others, waits = 40, 50
	}
	long := c.take(c.b, c.request(c.newName()), "of a free name")
	w := c.waitOn(c.a, c.request(long.req.Name))
	c.queued(long.req.Name, 1)
	begun := time.Now()
	var held []*lease
	for range others {
		held = append(held, c.take(c.b, c.request(c.newName()), "of a free name"))
	}
	trip := max(time.Since(begun)/time.Duration(others), 100*time.Microsecond)
	during(func() {
		var wg sync.WaitGroup
		for _, l := range held {
			wg.Go(func() { c.giveUpWaits(l.req.Name, waits, 6*trip) })
		}
		wg.Wait()
	})
	if !w.waiting() {
		c.failf("a wait ended while other waiters gave up: %v", c.awaitAnswer(w, "waiting beside waiters that gave up").err)
	}
	for _, l := range held {
		c.releaseFreely(l)
	}
	for _, l := range held {
		c.releaseFreely(c.takeSoon(c.b, c.request(l.req.Name), "of a free name whose waiters all gave up"))
	}
	c.releaseFreely(long)
	c.awaitHold(w, "waiting beside waiters that gave up")
}

// giveUpWaits waits for a held name several times. It gives up each wait before longest has passed.
func (c *check) giveUpWaits(name string, waits int, longest time.Duration) {
	for range waits {
		c.noteProgress()
		ctx, cancel := context.WithTimeout(c.ctx, rand.N(longest))
		g, err := ability[driver.Waiter](c.a.store).Wait(ctx, c.request(name), true)
		cancel()
		if err == nil && handed(g) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			c.errorf("waiting for a held name until the context ended: %+v, %v", g, err)
			return
		}
	}
}
