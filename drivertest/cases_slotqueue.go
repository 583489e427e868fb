package drivertest

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

var slotQueueCases = []testCase{
	{
		name:   "slots/handed-over",
		clause: "AwaitSlot hands permits over in the order of arrival, each with a greater fence than the holder before. Nobody else gets a permit that is reserved.",
		about:  "SlotQueuer.AwaitSlot",
		needs:  []need{takesSlots, queuesSlots},
		f: func(c *check) {
			r := c.request(c.slotted())
			held := c.takeSlots(r, 2)
			var waiters []*testWaiter
			for i, cl := range []*client{c.b, c.a} {
				waiters = append(waiters, c.awaitSlot(cl, r.Name, 2))
				c.slotQueued(r.Name, 2, i)
			}
			for i, w := range waiters {
				before := held[i]
				c.releaseFreely(before)
				l := c.awaitTurn(w, "AwaitSlot, after a permit was released", waiters[i+1:]...)
				if l.req.Name != before.req.Name || c.g.Fence != driver.NoFence && l.grant.Fence <= before.grant.Fence {
					c.failf("AwaitSlot hands %q over with the fence %d; free is %q, and its fence was %d", l.req.Name, l.grant.Fence, before.req.Name, before.grant.Fence)
				}
				if i == 0 { // only once: the permit must be claimed soon
					r.Token = newToken()
					c.slotRefused(r, 2, true, "of a permit that was handed over", l)
				}
				reserved := l.liveUntil
				c.acquireAgain(l, l.req)
				if i+1 < len(waiters) && !waiters[i+1].waiting() {
					c.failBefore(reserved, "AwaitSlot returned although no permit was released")
				}
				held = append(held, l)
			}
			for _, l := range held[len(waiters):] {
				c.releaseFreely(l)
			}
			r.Token = newToken()
			c.slotSoon(r, 2, "after all waiters were served")
		},
	},
	{
		name:   "slots/handed-at-once",
		clause: "If a permit is free, AwaitSlot hands it over at once. It waits behind a caller that has the gate.",
		about:  "SlotQueuer.AwaitSlot",
		needs:  []need{takesSlots, queuesSlots},
		f: func(c *check) {
			r := c.request(c.slotted())
			c.takeSlot(c.a, r, 2, false, "of two free permits")
			c.releaseFreely(c.awaitHold(c.awaitSlot(c.b, r.Name, 2), "AwaitSlot, while a permit is free"))
			gate := c.take(c.a, c.request(driver.SlotGate(r.Name, 2)), "for a gate")
			w := c.awaitSlot(c.b, r.Name, 2)
			c.queued(gate.req.Name, 1)
			if !w.waiting() {
				c.failBefore(gate.liveUntil, "AwaitSlot returned while another caller had the gate")
			}
			c.releaseFreely(gate)
			c.releaseFreely(c.awaitHold(w, "AwaitSlot, after the gate was released"))
		},
	},
	{
		name:   "slots/given-up",
		clause: "When AwaitSlot returns an error, the store has given up the place in the queue and any permit, or does so soon.",
		about:  "SlotQueuer.AwaitSlot",
		needs:  []need{takesSlots, queuesSlots},
		f: func(c *check) {
			r := c.request(c.slotted())
			held := c.takeSlots(r, 2)
			var waiters []*testWaiter
			for i := range 3 {
				waiters = append(waiters, c.awaitSlot(c.b, r.Name, 2))
				c.slotQueued(r.Name, 2, i)
			}
			for _, w := range waiters[:2] {
				w.cancel()
				if a := c.awaitAnswer(w, "AwaitSlot, whose context has ended"); !errors.Is(a.err, context.Canceled) {
					c.failf("AwaitSlot, whose context has ended: %v", orGranted(a.err))
				}
			}
			c.releaseFreely(held[1])
			c.releaseFreely(c.awaitHold(waiters[2], "AwaitSlot, after the waiters before it have given up"))
			c.releaseFreely(held[0])
			for range 2 {
				r.Token = newToken()
				c.slotSoon(r, 2, "after all waiters are gone")
			}
		},
	},
}

// takeSlots takes all permits of a name.
func (c *check) takeSlots(r driver.Request, n int) (held []*lease) {
	for range n {
		r.Token = newToken()
		_, l := c.takeSlot(c.a, r, n, false, "while a permit is free")
		held = append(held, l)
	}
	return held
}

// slotSoon takes a permit that is free. It does not overtake waiters, so AcquireSlot returns
// ErrHeld while somebody has the gate. slotSoon then tries again.
func (c *check) slotSoon(r driver.Request, n int, when string) {
	var err error
	c.poll(c.patience, func() bool {
		_, _, err = c.b.AcquireSlot(c.ctx, r, n, false)
		if errors.Is(err, driver.ErrHeld) {
			r.Token = newToken()
		}
		return !errors.Is(err, driver.ErrHeld)
	})
	if err != nil {
		c.failf("AcquireSlot %s: %v", when, err)
	}
}

// slotQueued waits until a caller of AwaitSlot is at the gate, and others wait behind it. If the
// store does not show who has the gate, it just waits for some time.
func (c *check) slotQueued(name string, n, behind int) {
	gate := driver.SlotGate(name, n)
	if behind > 0 {
		c.queued(gate, behind)
		return
	}
	if c.waiters(gate) < 0 {
		c.settle()
		return
	}
	c.poll(c.patience/4, func() bool {
		s, err := c.b.Inspect(c.ctx, gate)
		return err == nil && len(s.Holds) > 0
	})
}

// awaitSlot calls AwaitSlot once.
func (c *check) awaitSlot(cl *client, name string, n int) *testWaiter {
	return c.startWaiter(cl, c.request(name), func(ctx context.Context, t *testWaiter) answer {
		sent := c.clockTime()
		slot, g, err := cl.AwaitSlot(ctx, t.req, n)
		if err != nil {
			return answer{err: err}
		}
		r := t.req
		r.Name = driver.SlotName(name, slot)
		return answer{l: c.leased(cl, r, g, sent), grant: g}
	})
}

// AwaitSlot calls AwaitSlot without a time limit.
func (cl *client) AwaitSlot(ctx context.Context, r driver.Request, n int) (int, driver.Grant, error) {
	slot, g, err := ability[driver.SlotQueuer](cl.store).AwaitSlot(ctx, r, n)
	if err == nil {
		cl.forget(driver.SlotName(r.Name, slot), r.Token)
	}
	cl.saw(&call{"AwaitSlot", []string{r.Token}, g, err == nil, err})
	return slot, g, err
}
