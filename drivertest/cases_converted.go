package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// convertedCases check the lease, AtLeast and the waiters of a hold that Convert changes. They also
// check requests that reach a hold by Wait.
var convertedCases = []testCase{
	{
		name:   "convert/never-shortens",
		clause: "After Convert the lease lasts as long as before, even if the TTL of the request is shorter.",
		about:  "Converter.Convert",
		needs:  []need{converts, leases},
		f: func(c *check) {
			c.eachConversion(func(from, to bool) {
				r := c.brief(c.newName(), 5)
				r.Shared = from
				l := c.take(c.a, r, "of a free name")
				c.convertFor(l, to, c.units(1))
				c.takeOver(c.b, c.request(r.Name), l.sure, "by another process, after Convert with a short TTL")
			})
		},
	},
	{
		name:   "convert/lengthens",
		clause: "After Convert the lease lasts at least for the TTL of the request.",
		about:  "Converter.Convert Request.TTL",
		needs:  []need{converts, leases},
		f: func(c *check) {
			c.eachConversion(func(from, to bool) {
				r := c.brief(c.newName(), 2)
				r.Shared = from
				l := c.take(c.a, r, "of a free name")
				sent := c.clockTime()
				g := c.convertFor(l, to, c.units(5))
				c.checkLease(g, c.units(5), "Convert")
				l.setEnd(c, g, sent)
				c.takeOver(c.b, c.request(r.Name), l.sure, "by another process, after Convert with a long TTL")
			})
		},
	},
	{
		name:   "convert/atleast",
		clause: "Convert does not end AtLeast: after a Release, the name stays taken for the rest of it.",
		about:  "Converter.Convert Request.AtLeast",
		needs:  []need{converts, coolDowns},
		f: func(c *check) {
			c.eachConversion(func(from, to bool) {
				r := c.request(c.newName())
				r.Shared, r.AtLeast = from, c.units(4)
				l := c.take(c.a, r, "with AtLeast")
				c.convertFor(l, to, r.TTL)
				c.releaseFreely(l)
				c.takeOver(c.b, c.request(r.Name), l.sent.Add(r.AtLeast), "after Convert and Release of a hold with AtLeast")
			})
		},
	},
	{
		name:   "wait/atleast",
		clause: "AtLeast also counts for a hold that was handed over to a waiter.",
		about:  "Waiter.Wait Request.AtLeast",
		needs:  []need{coolDowns, waits},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			r := c.request(l.req.Name)
			r.AtLeast = c.units(4)
			w := c.waitForName(c.b, r, true)
			c.queued(r.Name, 1)
			before := c.clockTime()
			c.releaseFreely(l)
			c.releaseFreely(c.awaitHold(w, "waiting with AtLeast"))
			c.takeOver(c.a, c.request(r.Name), before.Add(r.AtLeast), "after a waiter's hold with AtLeast was released")
		},
	},
	{
		name:   "wait/above",
		clause: "FenceAbove also counts for a hold that was handed over to a waiter, and for a swap.",
		about:  "Waiter.Wait Request.FenceAbove Request.Replaces",
		needs:  []need{fences, waits},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			r := c.request(l.req.Name)
			r.FenceAbove = l.grant.Fence + 1e6
			w := c.waitForName(c.b, r, true)
			c.queued(r.Name, 1)
			c.releaseFreely(l)
			l = c.awaitHold(w, "waiting with FenceAbove")
			c.checkFenceAbove(l, r.FenceAbove)
			if c.has.replace {
				q := c.swap(l)
				q.FenceAbove = l.grant.Fence + 1e6
				c.checkFenceAbove(c.take(c.a, q, "with Replaces and FenceAbove"), q.FenceAbove)
			}
		},
	},
	{
		name:   "wait/demotion-wakes",
		clause: "When a writer's hold is demoted, waiting readers get their turn.",
		about:  "Waiter.Wait Converter.Convert",
		needs:  []need{converts, readers, waits},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			w := c.waitForName(c.a, c.readRequest(l.req.Name), true)
			other := c.waitForName(c.b, c.readRequest(l.req.Name), true)
			c.queued(l.req.Name, 2)
			if _, err := c.convert(l, true); err != nil {
				c.failf("Convert to shared: %v", err)
			}
			c.awaitHold(w, "waiting to read a name whose writer was demoted")
			c.awaitHold(other, "waiting to read a name whose writer was demoted")
			c.verify(l, "after demotion, with other readers")
		},
	},
	{
		name:   "wait/intent-wakes",
		clause: "A reader that waits because another reader wants to be promoted gets its turn when that intent is withdrawn or lapses.",
		about:  "Waiter.Wait Converter.Convert MaxIntent",
		needs:  []need{converts, promotes, readers, waits},
		f: func(c *check) {
			for _, withdrawn := range []bool{true, false} {
				l, _, ok := c.refusedPromotion()
				if !ok {
					return
				}
				w := c.waitForName(c.b, c.readRequest(l.req.Name), true)
				c.settle()
				if withdrawn {
					if _, err := c.convert(l, true); err != nil {
						c.failf("Convert of a reader to shared: %v", err)
					}
				}
				c.awaitHold(w, "waiting to read, after an intent has ended")
			}
		},
	},
}

// eachConversion calls f for each change of a hold's mode that the store supports, and for a
// Convert that changes nothing.
func (c *check) eachConversion(f func(from, to bool)) {
	f(false, false)
	if c.g.Shared {
		f(false, true)
		f(true, true)
	}
	if c.g.Shared && c.g.Promotion == driver.Atomic {
		f(true, false)
	}
}

// convertFor converts a hold with a request for a lease of ttl. If Convert fails, convertFor ends
// the case without a failure, because other cases report that.
func (c *check) convertFor(l *lease, shared bool, ttl time.Duration) driver.Grant {
	r := l.req
	r.Shared, r.TTL = shared, ttl
	g, err := l.cl.Convert(c.ctx, r)
	if err != nil {
		c.tooSlow(l.sure)
		panic(stop{})
	}
	return g
}
