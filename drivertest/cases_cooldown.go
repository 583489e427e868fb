package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var coolDownCases = []testCase{
	{
		name:   "cooldown/keeps",
		clause: "After Release with keep > 0 the name stays taken for that long, for every token and in every mode, and is free afterwards. A second Release of the token does not end the cool-down. A reader that leaves one does not touch the other readers.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			sent := time.Now()
			c.cool(l, c.units(4))
			end := sent.Add(c.units(4))
			c.releaseFreely(l)
			if _, err := c.a.Acquire(c.ctx, l.req); err == nil { // the error may also be ErrLost
				c.failBefore(end, "Acquire during a cool-down, with the token that left it: granted")
			}
			c.coolingFor(c.a, c.request(l.req.Name), end)
			c.coolingFor(c.b, c.request(l.req.Name), end)
			if c.g.Shared {
				c.coolingFor(c.b, c.readRequest(l.req.Name), end)
			}
			c.takeOver(c.b, c.request(l.req.Name), end, "during or after a cool-down")
			if !c.g.Shared {
				return
			}
			l = c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			other := c.readToo(c.b, l)
			sent = time.Now()
			c.cool(l, c.units(4))
			c.verify(other, "after another reader's Release with a cool-down")
			c.releaseFreely(other)
			c.takeOver(c.b, c.request(l.req.Name), sent.Add(c.units(4)), "to write, after a reader left a cool-down")
		},
	},
	{
		name:   "cooldown/told",
		clause: "Nobody holds a name that cools down: its Hold has Cooling set, and Until is when the name will be free.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.cool(l, c.long())
			for what, holds := range c.views(l) {
				if len(holds) != 1 || !holds[0].Cooling {
					c.failf("the name cools down, but %s has %+v", what, holds)
				}
				c.wantTime("Until of "+what, holds[0].Until, c.long())
			}
			held := c.mustRefuse(c.b, c.request(l.req.Name), "during a cool-down")
			c.wantTime("HeldError.Until", held.Until, c.long())
			if !held.Cooling() {
				c.errorf("HeldError.Cooling is false for %+v", held.Holds)
			}
		},
	},
}

// coolingFor checks that the cool-down keeps the request r out, unless the cool-down has ended.
func (c *check) coolingFor(cl *client, r driver.Request, end time.Time) {
	_, err := cl.Acquire(c.ctx, r)
	if errors.Is(err, driver.ErrHeld) {
		return
	}
	c.failBefore(end, "Acquire during a cool-down: want a *HeldError, got: %v", orGranted(err))
}
