package drivertest

import (
	"errors"

	"github.com/padlock-go/padlock/driver"
)

var reserveCases = []testCase{
	{
		name:   "reserve/claim",
		clause: "A name that Wait handed over is reserved for its token. Acquire with that token claims it, and then it has a full lease and the fence of the reservation, which is greater than those before it.",
		f: func(c *check) {
			l, ok := c.handedOver()
			if !ok {
				return // a store need not make reservations
			}
			c.mustRefuse(c.a, c.request(l.req.Name), "of a name that was handed over to a waiter", l)
			c.checkLease(c.acquireAgain(l, l.req), l.req.TTL, "the claim of a reservation")
			c.verify(l, "after the claim")
			c.nap(driver.MaxReservation)
			c.mustRefuse(c.a, c.request(l.req.Name), "of a name that was handed over and claimed", l)
			if l, ok = c.handedOver(); !ok {
				return
			}
			until := l.liveUntil
			if g := c.acquireAgain(l, l.req); g.Fence != l.grant.Fence {
				c.failBefore(until, "the reservation had fence %d, the claim has %d", l.grant.Fence, g.Fence)
			}
			c.releaseFreely(l)
			c.wantFenceAbove(c.takeSoon(c.a, c.request(l.req.Name), "after a claimed reservation"), l)
		},
	},
	{
		name:   "reserve/lapses",
		clause: "A reservation lasts at most MaxReservation. One that nobody claims is given up by itself: not before From+TTL, and within Guarantees.DeadWaiter (0: MaxReservation).",
		needs:  []need{not(inProcess)},
		f: func(c *check) {
			l, ok := c.handedOver()
			if !ok {
				return
			}
			if isHold(l.grant) {
				return // a hold does not lapse
			}
			if l.grant.TTL > driver.MaxReservation {
				c.errorf("the reservation lasts %v", l.grant.TTL)
			}
			n := c.takeOverLate(c.a, c.request(l.req.Name), l.liveUntil, c.deadWaiter(), "after a reservation that nobody claimed")
			if _, err := c.b.Acquire(c.ctx, l.req); !errors.Is(err, driver.ErrHeld) {
				c.failf("the claim of a reservation that had lapsed, with a new holder there: want a *HeldError, got: %v", orGranted(err))
			}
			c.verify(n, "after the late claim of a reservation")
		},
	},
	{
		name:   "reserve/in-process",
		clause: "A store in this process hands over holds with their full lease, which need no claim.",
		needs:  []need{inProcess},
		f: func(c *check) {
			l, ok := c.handedOver()
			if !ok {
				c.failf("Wait with reserve hands nothing over, though Guarantees say that the store is in this process")
			}
			c.checkLease(l.grant, l.req.TTL, "what Wait hands over")
			c.nap(driver.MaxReservation + c.unit)
			c.verify(l, "that Wait handed over and nobody claimed")
		},
	},
	{
		name:   "reserve/hold",
		clause: "The time From of what Wait hands over has passed. A Grant of Wait with From and a TTL above MaxReservation is the hold, which needs no claim. If its lease is short, Extend or Acquire gives it the full one, and without them the store does.",
		needs:  []need{not(inProcess)},
		f: func(c *check) {
			for _, waiter := range []*client{c.a, c.b} {
				l, ok := c.handedTo(waiter)
				if ok {
					c.checkFrom(l.grant)
				}
				if !ok || !isHold(l.grant) {
					continue // a store need not hand over holds
				}
				c.nap(driver.MaxReservation + c.unit)
				if l.grant.TTL < l.req.TTL {
					c.nap(l.grant.TTL)
				}
				c.verify(l, "that Wait handed over as a hold, and nobody claimed")
				c.checkLease(c.extend(l, l.req.TTL), l.req.TTL, "Extend of a hold that Wait handed over")
				if g := c.acquireAgain(l, l.req); g.Fence != l.grant.Fence {
					c.failf("Wait handed over fence %d, Acquire returns %d", l.grant.Fence, g.Fence)
				}
			}
		},
	},
	{
		name:   "reserve/release",
		clause: "Release gives a reservation up, and the next waiter in the queue gets its turn.",
		f: func(c *check) {
			l, ok := c.handedOver()
			if !ok {
				return
			}
			w := c.waitForName(c.a, c.request(l.req.Name), true)
			c.releaseFreely(l)
			c.awaitHold(w, "waiting behind a reservation that was given up")
		},
	},
}

// isHold reports whether the Grant that Wait returned is a hold, not a reservation.
func isHold(g driver.Grant) bool { return g.From != 0 && g.TTL > driver.MaxReservation }

// handedOver makes a reservation, and reports whether the store makes reservations at all.
func (c *check) handedOver() (*lease, bool) { return c.handedTo(c.b) }

// handedTo makes a reservation for a waiter of cl. Wait may return without a reservation, so the
// waiter tries a few times.
func (c *check) handedTo(cl *client) (*lease, bool) {
	for range 5 {
		l := c.take(c.a, c.request(c.newName()), "of a free name")
		w := c.waitOnce(cl, c.request(l.req.Name), true)
		c.queued(l.req.Name, 1)
		c.releaseFreely(l)
		a := c.awaitAnswer(w, "waiting for a release")
		if a.err != nil {
			c.failf("Wait with reserve: %v", a.err)
		}
		if handed(a.grant) {
			return a.l, true
		}
	}
	return nil, false
}
