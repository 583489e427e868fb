package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// convertedCases check the lease and the waiters of a hold that Convert changes. They also
// check requests that reach a hold by Wait.
var convertedCases = []testCase{
	{
		name:   "convert/never-shortens",
		clause: "After Convert the lease lasts as long as before, even if the TTL of the request is shorter.",
		about:  "Converter.Convert",
		needs:  []need{converts, leases},
		f: func(c *check) {
			all := c.conversions(func(r *driver.Request) { r.TTL = c.units(5) }, c.units(1))
			c.takenFor(all, c.units(3), "after Convert with a short TTL")
			for _, l := range all {
				c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after Convert with a short TTL")
			}
		},
	},
	{
		name:   "convert/lengthens",
		clause: "After Convert the lease lasts at least for the TTL of the request.",
		about:  "Converter.Convert Request.TTL",
		needs:  []need{converts, leases},
		f: func(c *check) {
			all := c.conversions(func(r *driver.Request) { r.TTL = c.units(2) }, c.units(5))
			for _, l := range all {
				c.checkLease(l.grant, c.units(5), "Convert")
			}
			c.takenFor(all, c.units(3), "after Convert with a long TTL")
			for _, l := range all {
				c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after Convert with a long TTL")
			}
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

// conversions makes holds, and changes the mode of each with a request for a lease of ttl. There is
// one hold for each change that the store supports, and one for a Convert that changes nothing. The
// function with sets what is special in the requests for these holds. If a Convert fails,
// conversions ends the case without a failure, because other cases report that.
func (c *check) conversions(with func(*driver.Request), ttl time.Duration) (all []*lease) {
	changes := [][2]bool{{false, false}}
	if c.g.Shared {
		changes = append(changes, [2]bool{false, true}, [2]bool{true, true})
	}
	if c.g.Shared && c.g.Promotion == driver.PromotionAtomic {
		changes = append(changes, [2]bool{true, false})
	}
	for _, shared := range changes {
		r := c.request(c.newName())
		r.Shared = shared[0]
		with(&r)
		l := c.take(c.a, r, "of a free name")
		first := l.sent
		r.Shared, r.TTL = shared[1], ttl
		sent := c.clockTime()
		g, err := c.a.Convert(c.ctx, r)
		if err != nil {
			if !c.clockTime().Before(l.liveUntil) {
				c.notProven(true, "Convert: %v", err)
			}
			panic(stop{})
		}
		l.grant = g
		l.setEnd(c, g, sent)
		l.sent = first
		all = append(all, l)
	}
	return all
}

// takenFor checks that the names of all leases are still taken after the time d.
func (c *check) takenFor(all []*lease, d time.Duration, when string) {
	c.passTime(d)
	for _, l := range all {
		c.mustRefuse(c.b, c.request(l.req.Name), when, l)
	}
}
