package drivertest

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
)

var passCases = []testCase{
	{
		name:   "pass/hands-over",
		clause: "Pass ends the hold of token and grants the name to next, with a full lease and a greater fence; then token holds nothing.",
		about:  "Passer.Pass",
		needs:  []need{passes},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.mustPass(l)
			if c.g.Fence != driver.FenceNone {
				c.checkFenceAbove(n, l.grant.Fence)
			}
			c.checkLease(n.grant, n.req.TTL, "Pass")
			c.verify(n, "after Pass")
			c.extendGone(c.a, l.req.Name, l.req.Token, "of a hold that was passed on")
			c.outcome(c.a, l.req.Name, l.req.Token, 0, "of a hold that was passed on", driver.OutcomeGone)
			c.mustRefuse(c.b, c.request(l.req.Name), "of a name that was passed on", n)
			c.outcome(c.a, l.req.Name, n.req.Token, 0, "of the next", driver.OutcomeReleased)
			c.takeSoon(c.b, c.request(l.req.Name), "after a passed hold was released")
		},
	},
	{
		name:   "pass/queue-first",
		clause: "A waiter in the store's queue comes before next: then next gets nothing.",
		about:  "Passer.Pass",
		needs:  []need{passes, waits, fifo},
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
		name:   "pass/repeat",
		clause: "Repeated with the same tokens, Pass returns the same as the first time while next's hold is live: Released, and the same fence.",
		about:  "Passer.Pass",
		needs:  []need{passes},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.mustPass(l)
			again, out := c.passOn(l, n.req)
			if again == nil || out != driver.OutcomeReleased || again.grant.Fence != n.grant.Fence {
				c.failf("Pass had fence %d; repeated it returns %q, %+v", n.grant.Fence, out, again)
			}
			c.checkLease(again.grant, n.req.TTL, "Pass, repeated")
			c.verify(n, "after Pass, repeated")
		},
	},
	{
		name:   "pass/nothing",
		clause: "Pass with a token that holds nothing grants nothing, and does not touch another hold.",
		about:  "Passer.Pass",
		needs:  []need{passes},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			old := *l
			c.releaseFreely(l)
			c.passedNothing(&old, "of a hold that was released")
			n := c.takeSoon(c.b, c.request(l.req.Name), "after Pass of a hold that was released")
			c.passedNothing(&old, "of a hold that was released, while another holder has the name")
			c.verify(n, "after somebody else's Pass")
			l = c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			c.lapse(l)
			c.passedNothing(l, "of a hold that had run out")
			c.takeSoon(c.b, c.request(l.req.Name), "after Pass of a hold that had run out")
		},
	},
	{
		name:   "pass/above",
		clause: "FenceAbove of next applies if Pass grants it the name.",
		about:  "Passer.Pass Request.FenceAbove",
		needs:  []need{passes, fences},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			r := c.request(l.req.Name)
			r.FenceAbove = l.grant.Fence + 1_000_000
			if n, _ := c.passOn(l, r); n != nil {
				c.checkFenceAbove(n, r.FenceAbove)
			}
		},
	},
	{
		name:   "pass/invalid",
		clause: "If next is shared, replaces something, or has the holder's own token, Pass returns ErrInvalid and the hold stays.",
		about:  "Passer.Pass ErrInvalid",
		needs:  []need{passes},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			shared, swap, same := c.readRequest(l.req.Name), c.swap(l), c.request(l.req.Name)
			same.Token = l.req.Token
			for what, r := range map[string]driver.Request{"a shared": shared, "a replacing": swap, "its own": same} {
				if _, _, err := c.a.Pass(c.ctx, l.req.Token, r); !errors.Is(err, driver.ErrInvalid) {
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
	sent := c.clockTime()
	out, g, err := l.cl.Pass(c.ctx, l.req.Token, r)
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

func (c *check) passedNothing(l *lease, what string) {
	if n, out := c.passOn(l, c.request(l.req.Name)); n != nil || out == driver.OutcomeReleased {
		c.failf("Pass %s: %q, granted %v", what, out, n != nil)
	}
}
