package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var coolDownCases = []testCase{
	{
		name:   "cooldown/keeps",
		clause: "After Release with keep > 0 the name stays taken for that long, for every token and in every mode, and is free afterwards. A second Release of the token does not end the cool-down.",
		about:  "Store.Release Guarantees.CoolDown",
		needs:  []need{coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			sent := c.clockTime()
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
		},
	},
	{
		name:   "cooldown/told",
		clause: "Nobody holds a name that cools down: its Hold has Cooling set, and Until is when the name will be free.",
		about:  "Hold.Cooling Hold.Until HeldError.Until HeldError.Cooling",
		needs:  []need{coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.cool(l, c.long())
			held := c.mustRefuse(c.b, c.request(l.req.Name), "during a cool-down")
			if len(held.Holds) != 1 || !held.Cooling() {
				c.failf("the name cools down, but HeldError has %+v", held.Holds)
			}
			c.wantTime("Hold.Until", held.Holds[0].Until, c.long())
			c.wantTime("HeldError.Until", held.Until, c.long())
		},
	},
	{
		name:   "cooldown/stale-release",
		clause: "The Release of a token that holds nothing leaves no cool-down, whatever keep is.",
		about:  "Store.Release",
		needs:  []need{coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			c.a.Release(c.ctx, l.req.Name, l.req.Token, c.long())
			n := c.takeSoon(c.b, c.request(l.req.Name), "after a second Release that asked for a cool-down")
			c.a.Release(c.ctx, l.req.Name, l.req.Token, c.long())
			c.releaseFreely(n)
			c.takeSoon(c.b, c.request(l.req.Name), "after a stale Release that asked for a cool-down")
		},
	},
	{
		name:   "cooldown/with-readers",
		clause: "A reader's Release with keep > 0 does not touch the other readers, and keeps writers out until the cool-down has ended.",
		about:  "Store.Release",
		needs:  []need{coolDowns, readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			other := c.readToo(c.b, l)
			sent := c.clockTime()
			c.cool(l, c.units(4))
			c.verify(other, "after another reader's Release with a cool-down")
			c.releaseFreely(other)
			c.takeOver(c.b, c.request(l.req.Name), sent.Add(c.units(4)), "to write, after a reader left a cool-down")
		},
	},
	{
		name:   "cooldown/unsupported",
		clause: "A store without cool-downs returns errors.ErrUnsupported for keep, and changes nothing.",
		about:  "Guarantees.CoolDown Store.Release",
		needs:  []need{not(coolDowns)},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			_, err := c.a.Release(c.ctx, l.req.Name, l.req.Token, time.Second)
			c.wantUnsupported(err, "Release with a cool-down")
			c.verify(l, "after Release with a cool-down was refused")
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

func (c *check) wantUnsupported(err error, what string) {
	if !errors.Is(err, errors.ErrUnsupported) {
		c.failf("%s: want errors.ErrUnsupported, got: %v", what, orGranted(err))
	}
}
