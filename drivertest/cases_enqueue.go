package drivertest

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
)

var enqueueCases = []testCase{
	{
		name:   "enqueue/answers",
		clause: "Enqueue calls answer once, when it is the request's turn, with a hold that has its full lease and needs no claim.",
		about:  "Enqueuer.Enqueue Enqueuer.Waiter Guarantees.InProcess",
		needs:  []need{enqueues},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			first := c.enqueue(c.b, c.request(l.req.Name))
			second := c.enqueue(c.a, c.request(l.req.Name))
			c.settle()
			if len(first.done)+len(second.done) > 0 {
				c.failf("Enqueue called answer while the name is held")
			}
			c.releaseFreely(l)
			n := c.awaitHold(first, "in the queue when the holder releases")
			c.checkLease(n.grant, n.req.TTL, "what Enqueue grants")
			c.passTime(driver.MaxReservation + c.unit)
			c.verify(n, "that Enqueue answered")
			if len(second.done) > 0 {
				c.failf("Enqueue granted the name to two waiters at once")
			}
			c.releaseFreely(n)
			c.releaseFreely(c.awaitHold(second, "in the queue when the one before it releases"))
			c.settle()
			if len(first.done)+len(second.done) > 0 {
				c.failf("Enqueue called answer twice")
			}
		},
	},
	{
		name:   "enqueue/free",
		clause: "Enqueue looks at the name once more after joining the queue: if the name is free, the answer comes at once.",
		about:  "Enqueuer.Enqueue",
		needs:  []need{enqueues},
		f: func(c *check) {
			c.releaseFreely(c.awaitHold(c.enqueue(c.a, c.request(c.newName())), "in the queue of a free name"))
		},
	},
	{
		name:   "enqueue/leave",
		clause: "leave gives the place up and reports whether it was in time. If it was, answer is not called, and the next waiter is not delayed.",
		about:  "Enqueuer.Enqueue",
		needs:  []need{enqueues},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			gone := c.enqueue(c.b, c.request(l.req.Name))
			next := c.enqueue(c.a, c.request(l.req.Name))
			if !gone.leave() {
				c.failf("leave reports that it was too late, but another holder has the name")
			}
			c.releaseFreely(l)
			n := c.awaitHold(next, "in the queue behind one that left")
			if next.leave() {
				c.failf("leave reports that it was in time, but answer was called before")
			}
			c.verify(n, "after a leave that came too late")
			c.releaseFreely(n)
			c.settle()
			if len(gone.done) > 0 {
				c.failf("Enqueue called answer although leave was in time")
			}
		},
	},
	{
		name:   "enqueue/closed",
		clause: "If the store is closed, answer gets ErrClosed and the place is given up; after Close, Enqueue returns ErrClosed.",
		about:  "Enqueuer.Enqueue Store.Close ErrClosed",
		needs:  []need{enqueues},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			cl := c.openAnother()
			w := c.enqueue(cl, c.request(l.req.Name))
			c.closed(cl)
			if a := c.awaitAnswer(w, "in the queue of a store that was closed"); !errors.Is(a.err, driver.ErrClosed) {
				c.failf("Enqueue of a store that was closed: want ErrClosed, got: %v", orGranted(a.err))
			}
			_, err := ability[driver.Enqueuer](cl.store).Enqueue(c.request(l.req.Name), func(driver.Grant, error) {})
			if !errors.Is(err, driver.ErrClosed) {
				c.failf("Enqueue after Close: want ErrClosed, got: %v", orGranted(err))
			}
			c.releaseFreely(l)
			c.takeSoon(c.b, c.request(l.req.Name), "after the store of the only waiter was closed")
		},
	},
	{
		name:   "enqueue/invalid",
		clause: "Enqueue checks its request first, as Wait does.",
		about:  "Enqueuer.Enqueue ErrInvalid",
		needs:  []need{enqueues},
		f: func(c *check) {
			_, err := ability[driver.Enqueuer](c.a.store).Enqueue(c.request(""), func(driver.Grant, error) {})
			c.invalid(err, "name", "Enqueue for an empty name")
		},
	},
}

// enqueue takes a place in the queue. Each call of the callback sends its arguments to done.
func (c *check) enqueue(cl *client, r driver.Request) *testWaiter {
	t := &testWaiter{cl: cl, req: r, done: make(chan answer, 2)}
	sent := c.clockTime()
	leave, err := ability[driver.Enqueuer](cl.store).Enqueue(r, func(g driver.Grant, err error) {
		t.done <- answer{l: c.leased(cl, r, g, sent), grant: g, err: err}
	})
	if err != nil {
		c.failf("Enqueue: %v", err)
	}
	t.leave = leave
	cl.forget(r.Name, r.Token)
	c.later(func() { leave() })
	return t
}
