package drivertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var giveUpCases = []testCase{
	{
		name:   "giveup/during-a-long-wait",
		clause: "A waiter that gave up delays nobody, even if it gave up while it joined the queue and its process goes on waiting for another name.",
		alone:  true, // a thousand waits that end at once keep a slow machine busy
		f:      func(c *check) { c.giveUp(func() { c.nap(time.Millisecond) }) },
	},
	{
		name:   "giveup/silence",
		clause: "A waiter that gave up while the server was silent delays nobody afterwards, even if its process goes on waiting for another name.",
		needs:  []need{pause, not(bound)},
		alone:  true,
		f: func(c *check) {
			c.giveUp(func() {
				resume := c.pause()
				c.nap(20 * time.Millisecond)
				resume()
				c.nap(rand.N(20 * time.Millisecond))
			})
		},
	},
}

// giveUp lets one process wait for a name all the time. In the same process, many waiters for other
// names give up soon, many of them while a request is on its way. Meanwhile giveUp calls disturb
// again and again. Then the other names are released, and another process can take them.
func (c *check) giveUp(disturb func()) {
	const names, waits = 24, 40
	long := c.take(c.b, c.request(c.newName()), "of a free name")
	w := c.waitForName(c.a, c.request(long.req.Name), true)
	c.queued(long.req.Name, 1)
	var held []*lease
	begun := time.Now()
	for range names {
		held = append(held, c.take(c.b, c.request(c.newName()), "of a free name"))
	}
	trip := max(time.Since(begun)/names, 100*time.Microsecond)
	var wg sync.WaitGroup
	over := make(chan struct{})
	for _, l := range held {
		lives := time.Until(l.liveUntil)
		wg.Go(func() { c.giveUpWaits(l, waits, max(time.Millisecond, min(6*trip, lives/(2*waits)))) })
	}
	go func() {
		defer close(over)
		wg.Wait()
	}()
	for alive := true; alive; {
		disturb()
		select {
		case <-over:
			alive = false
		default:
		}
	}
	for _, l := range held {
		c.releaseFreely(l)
	}
	for _, l := range held {
		c.releaseFreely(c.takeSoon(c.b, c.request(l.req.Name), "of a free name whose waiters all gave up"))
	}
	if !w.waiting() {
		c.failBefore(long.liveUntil, "a wait ended while other waiters gave up: %v", c.awaitAnswer(w, "waiting while other waiters give up").err)
	}
	c.releaseFreely(long)
	c.awaitHold(w, "waiting while other waiters give up")
}

// giveUpWaits waits for the name of l several times. It gives up each wait before longest has
// passed.
func (c *check) giveUpWaits(l *lease, waits int, longest time.Duration) {
	for range waits {
		c.noteProgress()
		ctx, cancel := context.WithTimeout(c.ctx, rand.N(longest))
		g, err := ability[driver.Waiter](c.a.store).Wait(ctx, c.request(l.req.Name), true)
		cancel()
		if err == nil && handed(g) {
			if time.Now().Before(l.liveUntil) && !l.lostConnection() {
				c.errorf("%v", safety.ErrTwoHold("a waiter was handed a name that is held: %+v", g))
			}
			return
		}
	}
}
