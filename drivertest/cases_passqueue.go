package drivertest

import "github.com/padlock-go/padlock/driver"

var passQueueCases = []testCase{
	{
		name:   "pass/nothing-waited",
		clause: "Pass with a token that holds nothing grants nothing and takes no place, even if others wait.",
		about:  "Passer.Pass",
		needs:  []need{passes, waits},
		f: func(c *check) {
			old := *c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(&old)
			l := c.takeSoon(c.b, c.request(old.req.Name), "after a release")
			w := c.waitForName(c.a, c.request(old.req.Name), true)
			c.queued(old.req.Name, 1)
			if n, out, queued := c.passOn(&old, c.request(old.req.Name)); n != nil || queued || out == driver.OutcomeReleased {
				c.failf("Pass of a hold that was released: %q, granted %v, queued %v", out, n != nil, queued)
			}
			c.verify(l, "after Pass with a token that holds nothing")
			c.releaseFreely(l)
			c.releaseFreely(c.awaitHold(w, "waiting while a token that holds nothing is passed on"))
			c.takeSoon(c.b, c.request(old.req.Name), "after all others released")
		},
	},
	{
		name:   "pass/place",
		clause: "If Pass queues next, its place is the last one, and Wait with the same request waits at that place.",
		about:  "Passer.Pass Waiter.Wait",
		needs:  []need{passes, waits, fifo},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			next := c.waitOnce(c.a, q.req, true)
			last := c.waitForName(c.b, c.request(q.req.Name), true)
			c.queued(q.req.Name, 3)
			fence := uint64(0)
			for _, w := range q.before {
				l := c.awaitTurn(w, "in the queue before the place that Pass took", q.before[1], next, last)
				if !next.waiting() {
					c.failLate(driver.MaxReservation, "next does not wait behind the callers that were in the queue before it")
				}
				fence = l.grant.Fence
				c.releaseFreely(l)
			}
			c.notOvertaken(next, "Wait at the place that Pass took", last)
			a := c.awaitAnswer(next, "Wait at the place that Pass took")
			if a.err != nil || !handed(a.grant) {
				c.failLate(driver.MaxReservation, "Wait at the place that Pass took returns %+v, %v", a.grant, a.err)
			}
			n, err := c.try(c.a, q.req)
			if err != nil {
				c.failBefore(a.l.liveUntil, "Acquire with the token of the place, after Wait: it must be granted, got: %v", err)
			}
			if c.g.Fence != driver.FenceNone {
				c.checkFenceAbove(n, fence)
			}
			c.releaseFreely(n)
			c.releaseFreely(c.awaitHold(last, "in the queue behind the place that Pass took"))
		},
	},
	{
		name:   "pass/place-again",
		clause: "Pass, repeated with the same tokens before Wait, returns the same result, and Wait with the same request waits at the same place.",
		about:  "Passer.Pass Waiter.Wait",
		needs:  []need{passes, waits, fifo},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			first := c.awaitTurn(q.before[0], "the first in the queue", q.before[1])
			counted := c.waiters(q.req.Name) // the first one has left the queue: only Pass changes it now
			if n, out, queued := c.passOn(q.from, q.req); n != nil || out != driver.OutcomeReleased || !queued {
				c.failLate(driver.MaxReservation, "Pass queued next; repeated it returns %q, granted %v, queued %v", out, n != nil, queued)
			}
			if n := c.waiters(q.req.Name); n > counted {
				c.failLate(driver.MaxReservation, "Pass, repeated, makes %d waiters of %d", n, counted)
			}
			next := c.waitOnce(c.a, q.req, true)
			last := c.waitForName(c.b, c.request(q.req.Name), true)
			c.releaseFreely(first)
			c.releaseFreely(c.awaitTurn(q.before[1], "in the queue before the place that Pass took", next, last))
			c.notOvertaken(next, "Wait at the place, after Pass was repeated", last)
			a := c.awaitAnswer(next, "Wait at the place, after Pass was repeated")
			if a.err != nil || !handed(a.grant) {
				c.failLate(driver.MaxReservation, "Wait at the place, after Pass was repeated, returns %+v, %v", a.grant, a.err)
			}
			c.releaseFreely(a.l)
			c.releaseFreely(c.awaitHold(last, "in the queue behind the place that Pass took"))
			c.takeSoon(c.b, c.request(q.req.Name), "after all others released")
		},
	},
	{
		name:   "pass/place-given-up",
		clause: "Release with the token of next gives up the place that Pass took.",
		about:  "Passer.Pass Store.Release",
		needs:  []need{passes, waits},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			l, counted := c.awaitTurn(q.before[0], "the first in the queue", q.before[1]), c.waiters(q.req.Name)
			c.giveUpPlace(q.req)
			if counted > 0 && !c.poll(c.patience/4, func() bool { return c.waiters(q.req.Name) < counted }) {
				c.failLate(c.patience/4, "Release with the token of a place leaves %d waiters", counted)
			}
			c.releaseFreely(l)
			c.releaseFreely(c.awaitHold(q.before[1], "the second in the queue"))
			c.takeSoon(c.b, c.request(q.req.Name), "after a place was given up")
		},
	},
	{
		name:   "pass/place-absent",
		clause: "If Wait is never called for the place that Pass took, the place delays the waiters behind it by at most Guarantees.DeadWaiter.",
		about:  "Passer.Pass Guarantees.DeadWaiter",
		needs:  []need{passes, waits, fifo},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			behind := c.waitForName(c.b, c.request(q.req.Name), true)
			c.queued(q.req.Name, 3)
			for _, w := range q.before {
				c.releaseFreely(c.awaitTurn(w, "in the queue before a place that nobody waits at", q.before[1], behind))
			}
			c.behindDead(behind, "in the queue behind a place that nobody waits at")
		},
	},
}

// A queuedNext is a request for which Pass has taken a place in the queue, behind two
// waiters. The first waiter may have the name already.
type queuedNext struct {
	from   *lease // the hold that was passed on
	req    driver.Request
	before [2]*testWaiter
}

// queueNext makes two waiters wait for a name, and then calls Pass. It tries that up to
// three times, until Pass takes a place in the queue. A store may always grant the name to a
// waiter instead. queueNext then returns nil.
func (c *check) queueNext() *queuedNext {
	for range 3 {
		name := c.newName()
		l := c.take(c.a, c.request(name), "of a free name")
		q := &queuedNext{from: l, req: c.request(name)}
		for i, cl := range []*client{c.a, c.b} {
			q.before[i] = c.waitForName(cl, c.request(name), true)
			c.queued(name, i+1)
		}
		c.settle() // so that the store can begin to listen for notifications
		n, _, queued := c.passOn(l, q.req)
		if queued {
			return q
		}
		if n != nil {
			c.releaseFreely(n)
		}
		for _, w := range q.before {
			c.releaseFreely(c.awaitTurn(w, "in the queue of a hold that was passed on", q.before[1]))
		}
	}
	return nil
}
