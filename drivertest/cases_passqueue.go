package drivertest

import "github.com/padlock-go/padlock/driver"

var passQueueCases = []testCase{
	{
		name:   "pass-or-queue/passes",
		clause: "If nobody waits, PassOrQueue does what Pass does: it grants the name to next, with a full lease and a greater fence, and takes no place.",
		about:  "QueuePasser.PassOrQueue",
		needs:  []need{queues},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for range 5 { // a store may sometimes release the lock and grant nothing
				old := *l
				n, out, queued := c.passOrQueue(l, c.request(l.req.Name))
				if queued || out != driver.Released {
					c.failf("PassOrQueue of a live hold that nobody waits for: %q, queued %v", out, queued)
				}
				if n == nil {
					*l = *c.takeSoon(c.a, c.request(l.req.Name), "after a PassOrQueue that granted nothing")
					continue
				}
				if c.g.Fence != driver.NoFence {
					c.checkFenceAbove(n, old.grant.Fence)
				}
				c.checkLease(n.grant, n.req.TTL, "PassOrQueue")
				c.verify(n, "after PassOrQueue")
				c.extendGone(c.a, old.req.Name, old.req.Token, "of a hold that was passed on")
				return
			}
			c.failf("PassOrQueue has never granted a name that nobody waited for")
		},
	},
	{
		name:   "pass-or-queue/nothing",
		clause: "PassOrQueue with a token that holds nothing grants nothing and takes no place, even if others wait.",
		about:  "QueuePasser.PassOrQueue",
		needs:  []need{queues, waits},
		f: func(c *check) {
			old := *c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(&old)
			l := c.takeSoon(c.b, c.request(old.req.Name), "after a release")
			w := c.waitForName(c.a, c.request(old.req.Name), true)
			c.queued(old.req.Name, 1)
			if n, out, queued := c.passOrQueue(&old, c.request(old.req.Name)); n != nil || queued || out == driver.Released {
				c.failf("PassOrQueue of a hold that was released: %q, granted %v, queued %v", out, n != nil, queued)
			}
			c.verify(l, "after PassOrQueue with a token that holds nothing")
			c.releaseFreely(l)
			c.releaseFreely(c.awaitHold(w, "waiting while a token that holds nothing is passed on"))
			c.takeSoon(c.b, c.request(old.req.Name), "after all others released")
		},
	},
	{
		name:   "pass-or-queue/place",
		clause: "If PassOrQueue queues next, its place is the last one, and Wait with the same request waits at that place.",
		about:  "QueuePasser.PassOrQueue Waiter.Wait",
		needs:  []need{queues, waits, fifo},
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
				l := c.awaitTurn(w, "in the queue before the place that PassOrQueue took", q.before[1], next, last)
				if !next.waiting() {
					c.failLate(driver.MaxReservation, "next does not wait behind the callers that were in the queue before it")
				}
				fence = l.grant.Fence
				c.releaseFreely(l)
			}
			c.notOvertaken(next, "Wait at the place that PassOrQueue took", last)
			a := c.awaitAnswer(next, "Wait at the place that PassOrQueue took")
			if a.err != nil || !handed(a.grant) {
				c.failLate(driver.MaxReservation, "Wait at the place that PassOrQueue took returns %+v, %v", a.grant, a.err)
			}
			n, err := c.try(c.a, q.req)
			if err != nil {
				c.failBefore(a.l.liveUntil, "Acquire with the token of the place, after Wait: it must be granted, got: %v", err)
			}
			if c.g.Fence != driver.NoFence {
				c.checkFenceAbove(n, fence)
			}
			c.releaseFreely(n)
			c.releaseFreely(c.awaitHold(last, "in the queue behind the place that PassOrQueue took"))
		},
	},
	{
		name:   "pass-or-queue/repeat",
		clause: "PassOrQueue, repeated with the same tokens before Wait, returns the same result, and Wait with the same request waits at the same place.",
		about:  "QueuePasser.PassOrQueue Waiter.Wait",
		needs:  []need{queues, waits, fifo},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			counted := c.waiters(q.req.Name)
			if n, out, queued := c.passOrQueue(q.from, q.req); n != nil || out != driver.Released || !queued {
				c.failLate(driver.MaxReservation, "PassOrQueue queued next; repeated it returns %q, granted %v, queued %v", out, n != nil, queued)
			}
			if n := c.waiters(q.req.Name); n > counted {
				c.failLate(driver.MaxReservation, "PassOrQueue, repeated, makes %d waiters of %d", n, counted)
			}
			next := c.waitOnce(c.a, q.req, true)
			last := c.waitForName(c.b, c.request(q.req.Name), true)
			for _, w := range q.before {
				c.releaseFreely(c.awaitTurn(w, "in the queue before the place that PassOrQueue took", q.before[1], next, last))
			}
			c.notOvertaken(next, "Wait at the place, after PassOrQueue was repeated", last)
			a := c.awaitAnswer(next, "Wait at the place, after PassOrQueue was repeated")
			if a.err != nil || !handed(a.grant) {
				c.failLate(driver.MaxReservation, "Wait at the place, after PassOrQueue was repeated, returns %+v, %v", a.grant, a.err)
			}
			c.releaseFreely(a.l)
			c.releaseFreely(c.awaitHold(last, "in the queue behind the place that PassOrQueue took"))
			c.takeSoon(c.b, c.request(q.req.Name), "after all others released")
		},
	},
	{
		name:   "pass-or-queue/gives-up",
		clause: "Release with the token of next gives up the place that PassOrQueue took.",
		about:  "QueuePasser.PassOrQueue Store.Release",
		needs:  []need{queues, waits},
		f: func(c *check) {
			q := c.queueNext()
			if q == nil {
				return
			}
			l, counted := c.awaitTurn(q.before[0], "the first in the queue", q.before[1]), c.waiters(q.req.Name)
			if _, err := c.a.Release(c.ctx, q.req.Name, q.req.Token, 0); err != nil {
				c.failf("Release with the token of a place: %v", err)
			}
			if counted > 0 && !c.poll(c.patience/4, func() bool { return c.waiters(q.req.Name) < counted }) {
				c.failLate(c.patience/4, "Release with the token of a place leaves %d waiters", counted)
			}
			c.releaseFreely(l)
			c.releaseFreely(c.awaitHold(q.before[1], "the second in the queue"))
			c.takeSoon(c.b, c.request(q.req.Name), "after a place was given up")
		},
	},
	{
		name:   "pass-or-queue/absent",
		clause: "If Wait is never called for the place that PassOrQueue took, the place delays the waiters behind it by at most Guarantees.DeadWaiter.",
		about:  "QueuePasser.PassOrQueue Guarantees.DeadWaiter",
		needs:  []need{queues, waits, fifo},
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

// passOrQueue passes the hold l on to the request r with PassOrQueue. It returns the new hold, or
// nil if the store did not grant the name to r.
func (c *check) passOrQueue(l *lease, r driver.Request) (n *lease, out driver.Outcome, queued bool) {
	sent := c.clockTime()
	out, g, queued, err := l.cl.PassOrQueue(c.ctx, l.req.Token, r)
	if err != nil {
		c.failf("PassOrQueue: %v", err)
	}
	if queued && (handed(g) || out != driver.Released) {
		c.failf("PassOrQueue says that it has queued the request, and also %q, %+v", out, g)
	}
	if !handed(g) {
		return nil, out, queued
	}
	return c.leased(l.cl, r, g, sent), out, false
}

// A queuedNext is a request for which PassOrQueue has taken a place in the queue, behind two
// waiters. The first waiter may have the name already.
type queuedNext struct {
	from   *lease // the hold that was passed on
	req    driver.Request
	before [2]*testWaiter
}

// queueNext makes two waiters wait for a name, and then calls PassOrQueue. It tries that up to
// three times, until PassOrQueue takes a place in the queue. A store may always grant the name to a
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
		n, _, queued := c.passOrQueue(l, q.req)
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
