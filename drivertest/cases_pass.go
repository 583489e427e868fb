package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var passCases = []testCase{
	{
		name:   "pass/queue-first",
		clause: "A waiter in the store's queue comes before next: then next gets nothing.",
		needs:  []need{waits, fifo},
		f: func(c *check) {
			for _, mine := range []*client{c.b, c.a} {
				l := c.take(c.a, c.request(c.newName()), "of a free name")
				w := c.waitForName(mine, c.request(l.req.Name), true)
				c.queued(l.req.Name, 1)
				inQueue := c.waiters(l.req.Name) > 0 // false if the waiter was too slow or is not counted
				r := c.request(l.req.Name)
				n, out := c.passOn(l, r)
				if out != driver.OutcomeReleased {
					c.failf("Pass of a name that somebody waits for: %q", out)
				}
				if n != nil && inQueue {
					c.failLate(driver.MaxReservation, "Pass of a name that somebody waits for grants it to next")
				}
				if n != nil {
					c.releaseFreely(n)
				}
				c.releaseFreely(c.awaitHold(w, "waiting for a hold that was passed on"))
				c.takeSoon(c.b, c.request(l.req.Name), "after a Pass that granted nothing")
			}
		},
	},
	{
		name:   "pass/invalid",
		clause: "If next is shared, replaces something, or has the holder's own token, Pass returns ErrInvalid and the hold stays.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			shared, swap, same := c.readRequest(l.req.Name), c.swap(l), c.request(l.req.Name)
			same.Token = l.req.Token
			for what, r := range map[string]driver.Request{"a shared": shared, "a replacing": swap, "its own": same} {
				if _, _, err := c.a.Pass(c.ctx, l.req.Token.Text(), r); !errors.Is(err, driver.ErrInvalid) {
					c.failf("Pass to %s request: want ErrInvalid, got: %v", what, orGranted(err))
				}
			}
			c.verify(l, "after invalid requests for next")
		},
	},
}

// passOn passes the hold l on to the request r. It returns the new hold, or nil if the store did
// not grant the name to r.
func (c *check) passOn(l *lease, r driver.Request) (*lease, driver.Outcome) {
	sent := time.Now()
	out, g, err := l.cl.Pass(c.ctx, l.req.Token.Text(), r)
	if err != nil {
		c.failf("Pass: %v", err)
	}
	if !handed(g) {
		return nil, out
	}
	return c.leased(l.cl, r, g, sent), out
}

// mustPass passes the lock of l on to a new hold and returns that hold. No other caller wants the
// lock, so the store should make the new hold. But a store may sometimes release the lock without
// making the new hold. Then mustPass takes the lock again and passes it on once more, up to five
// times.
func (c *check) mustPass(l *lease) *lease {
	for range 5 {
		n, out := c.passOn(l, c.request(l.req.Name))
		if out != driver.OutcomeReleased {
			c.failf("Pass of a live hold returns %q", out)
		}
		if n != nil {
			return n
		}
		*l = *c.takeSoon(l.cl, c.request(l.req.Name), "after a Pass that granted nothing")
	}
	c.failf("Pass has never granted a name that nobody waited for")
	return nil
}
