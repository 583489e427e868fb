package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var promoteCases = []testCase{
	{
		name:   "promote/sole-reader",
		clause: "Promotion succeeds if this is the only hold, with a new fence; then the hold is exclusive.",
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			g := c.promoted(l)
			if err := safety.FenceRises(g.Fence, l.grant.Fence); err != nil && c.g.Fence != driver.FenceNone {
				c.errorf("the exclusive hold after the shared one: %v", err)
			}
			c.verify(l, "after promotion")
			c.mustRefuse(c.b, c.readRequest(l.req.Name), "to read while there is a promoted hold", l)
			c.releaseFreely(l)
			n := c.takeSoon(c.b, c.request(l.req.Name), "after the promoted hold's release")
			if c.g.Fence != driver.FenceNone {
				c.checkFenceAbove(n, g.Fence)
			}
		},
	},
	{
		name:   "promote/failed-keeps-the-hold",
		clause: "While others read, promotion returns a *HeldError: a hold is never exclusive while there is another reader. A failed promotion leaves the shared hold as it was, or returns ErrLost.",
		f: func(c *check) {
			l, other := c.twoReaders()
			lost := errors.Is(c.notPromoted(l), driver.ErrLost)
			c.verify(other, "after another reader's promotion was refused")
			if lost {
				return // a store is allowed to report the loss
			}
			c.verify(l, "after a promotion that returned ErrHeld")
			c.releaseFreely(other)
			c.mustRefuse(c.b, c.request(l.req.Name), "to write while there is a reader whose promotion had failed", l)
		},
	},
	{
		name:   "promote/intent",
		clause: "A refused promotion notes the intent, so that no new reader is let in.",
		f: func(c *check) {
			for range 5 { // on a slow machine, the intent may end before the new reader comes: try again
				l, _, ok := c.refusedPromotion()
				if !ok {
					return
				}
				n, err := c.try(c.b, c.readRequest(l.req.Name))
				if errors.Is(err, driver.ErrHeld) {
					return
				}
				if err != nil {
					c.failf("Acquire to read during a promotion: want a *HeldError, got: %v", err)
				}
				c.releaseFreely(n)
			}
			c.failLate(driver.MaxIntent, "new readers were let in, five times, right after a promotion had been refused")
		},
	},
	{
		name:   "promote/intent-ends",
		clause: "An intent ends when a Convert to the mode that the hold has withdraws it, at the Release of its reader, after Break, and within MaxIntent if no other Convert renews it. Then new readers are let in, and readers that wait get their turn.",
		f:      intentEnds,
	},
	{
		name:   "promote/conflict",
		clause: "If two readers want to be promoted, Convert returns ErrPromotionConflict to the second at once. It stays a reader, and the first is promoted when the second leaves.",
		f:      promotionConflict,
	},
}

var convertCases = []testCase{
	{
		name:   "demote/keeps-fence",
		clause: "Demotion always succeeds while the name is held, and keeps the fence; then readers are let in and writers are not.",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			g, err := c.convert(l, true)
			if err != nil {
				c.failf("demotion of a live hold: %v", err)
			}
			if g.Fence != l.grant.Fence {
				c.errorf("the hold had fence %d, after demotion it has %d", l.grant.Fence, g.Fence)
			}
			other := c.takeSoon(c.b, c.readRequest(l.req.Name), "to read, after demotion")
			c.mustRefuse(c.b, c.request(l.req.Name), "to write while there is a demoted hold", l)
			c.verify(l, "after demotion")
			c.releaseFreely(l)
			c.verify(other, "after the demoted hold's release")
		},
	},
	{
		name:   "convert/same-mode",
		clause: "Convert to the mode that the hold has verifies the hold and keeps its fence.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			g, err := c.convert(l, false)
			if err != nil {
				c.failf("Convert to the mode already held: %v", err)
			}
			c.sameFence(l, g, "Convert to the mode already held")
			c.mustRefuse(c.b, c.request(l.req.Name), "after Convert to the mode already held", l)
			c.releaseFreely(l)
		},
	},
}

func (c *check) twoReaders() (l, other *lease) {
	l = c.take(c.a, c.readRequest(c.newName()), "to read a free name")
	return l, c.readToo(c.b, l)
}

func (c *check) promoted(l *lease) driver.Grant {
	g, err := c.convert(l, false)
	if err != nil {
		c.failf("promotion of the only reader: %v", err)
	}
	return g
}

func (c *check) eventuallyPromoted(l *lease) {
	var err error
	c.poll(c.patience, func() bool { _, err = c.convert(l, false); return !errors.Is(err, driver.ErrHeld) })
	if errors.Is(err, driver.ErrHeld) {
		c.failLate(c.patience, "promotion of the only reader left was still refused after %v: %v", c.patience, err)
	}
	if err != nil {
		c.failf("promotion of the only reader left: %v", err)
	}
}

// notPromoted tries a promotion that must fail, and returns its error.
func (c *check) notPromoted(l *lease) error {
	g, err := c.convert(l, false)
	switch {
	case err == nil:
		c.failf("promotion while there is another reader was granted with fence %d", g.Fence)
	case c.g.Promotion == driver.PromotionRegrant && errors.Is(err, driver.ErrLost):
	case !errors.Is(err, driver.ErrHeld):
		c.failf("promotion while there is another reader: want a *HeldError, got: %v", err)
	}
	return err
}

// refusedPromotion makes two readers and tries to promote the first reader. ok is true if the
// store refused the promotion and the first reader kept its hold. If ok is false, the caller ends
// its case without a failure, because promote/failed-keeps-the-hold checks this.
func (c *check) refusedPromotion() (l, other *lease, ok bool) {
	l, other = c.twoReaders()
	_, err := c.convert(l, false)
	return l, other, errors.Is(err, driver.ErrHeld) && c.alive(l)
}

// alive reports whether the lease l still exists after a promotion that the store refused. With
// driver.PromotionRegrant, the refused promotion may have ended the lease.
func (c *check) alive(l *lease) bool {
	_, err := c.a.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
	return err == nil
}

func promotionConflict(c *check) {
	l, second, ok := c.refusedPromotion()
	if !ok {
		return
	}
	if _, err := c.convert(second, false); !errors.Is(err, driver.ErrPromotionConflict) {
		c.failLate(driver.MaxIntent, "promotion of a second reader: want ErrPromotionConflict, got: %v", orGranted(err))
	}
	c.verify(second, "after ErrPromotionConflict")
	c.releaseFreely(second)
	c.eventuallyPromoted(l)
}

func intentEnds(c *check) {
	type ending struct {
		when  string
		limit time.Duration
		end   func(*lease)
	}
	endings := []ending{
		{"after the intent was withdrawn", driver.MaxIntent / 4, func(l *lease) {
			if _, err := c.convert(l, true); err != nil {
				c.failf("Convert of a reader to shared: %v", err)
			}
		}},
		{"after the release of the reader that had the intent", driver.MaxIntent / 4, c.releaseFreely},
		{"after the intent should have lapsed", c.patience, func(*lease) { c.nap(driver.MaxIntent) }},
	}
	if c.can(driver.AbilityBreak | driver.AbilityInspect) {
		endings = append(endings, ending{"after Break, and after its reader knew", c.patience, func(l *lease) {
			c.broken(l.req.Name)
			_, err := c.a.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
			c.wantLost(err, "Extend after Break")
		}})
	}
	for _, e := range endings {
		l, _, ok := c.refusedPromotion()
		if !ok {
			return
		}
		e.end(l)
		c.within(e.limit, c.b, c.readRequest(l.req.Name), "to read, "+e.when)
		if !c.can(driver.AbilityWaiter) {
			continue
		}
		if l, _, ok = c.refusedPromotion(); !ok {
			return
		}
		w := c.waitForName(c.b, c.readRequest(l.req.Name), true)
		c.settle()
		e.end(l)
		c.awaitHold(w, "waiting to read, "+e.when)
	}
}
