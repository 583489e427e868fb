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
		clause: "A store without cool-downs returns errors.ErrUnsupported for keep and for AtLeast, and changes nothing.",
		about:  "Guarantees.CoolDown Request.AtLeast",
		needs:  []need{not(coolDowns)},
		f: func(c *check) {
			r := c.request(c.newName())
			r.AtLeast = time.Second
			_, err := c.a.Acquire(c.ctx, r)
			c.wantUnsupported(err, "Acquire with AtLeast")
			l := c.take(c.a, c.request(r.Name), "after AtLeast was refused")
			_, err = c.a.Release(c.ctx, r.Name, l.req.Token, time.Second)
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

var atLeastCases = []testCase{
	{
		name:   "atleast/first-lease",
		clause: "AtLeast, if longer than TTL, is the length of the first lease: the name stays taken that long even if the holder dies.",
		about:  "Request.AtLeast",
		needs:  []need{coolDowns, leases},
		f: func(c *check) {
			r := c.brief(c.newName(), 1)
			r.AtLeast = c.units(4)
			l := c.take(c.a, r, "with AtLeast")
			c.checkLease(l.grant, r.AtLeast, "Acquire with AtLeast")
			c.takeOver(c.b, c.request(r.Name), l.sent.Add(r.AtLeast), "by another process, after a grant with AtLeast")
		},
	},
	{
		name:   "atleast/shorter",
		clause: "AtLeast shorter than TTL does not shorten the lease.",
		about:  "Request.AtLeast",
		needs:  []need{coolDowns, leases},
		f: func(c *check) {
			r := c.brief(c.newName(), 4)
			r.AtLeast = c.units(1)
			l := c.take(c.a, r, "with AtLeast")
			c.takeOver(c.b, c.request(r.Name), l.sent.Add(r.TTL), "by another process, after a grant with AtLeast shorter than TTL")
		},
	},
	{
		name:   "atleast/extend",
		clause: "Extend never ends a hold before its AtLeast.",
		about:  "Request.AtLeast Store.Extend",
		needs:  []need{coolDowns, leases},
		f: func(c *check) {
			r := c.brief(c.newName(), 1)
			r.AtLeast = c.units(4)
			l := c.take(c.a, r, "with AtLeast")
			sent := l.sent
			c.extend(l, c.units(1))
			c.takeOver(c.b, c.request(r.Name), sent.Add(r.AtLeast), "by another process, after Extend of a hold with AtLeast")
		},
	},
	{
		name:   "atleast/release",
		clause: "A Release before AtLeast returns OutcomeReleased and leaves a cool-down for the rest.",
		about:  "Request.AtLeast Store.Release",
		needs:  []need{coolDowns},
		f: func(c *check) {
			r := c.request(c.newName())
			r.AtLeast = c.units(4)
			l := c.take(c.a, r, "with AtLeast")
			c.release(l, 0, "before AtLeast", driver.OutcomeReleased)
			c.takeOver(c.b, c.request(r.Name), l.sent.Add(r.AtLeast), "after a Release before AtLeast")
		},
	},
	{
		name:   "atleast/repeat",
		clause: "A repeat of Acquire sets AtLeast from the second request on, even if the first request did not have it, and never shortens it.",
		about:  "Request.AtLeast Store.Acquire",
		needs:  []need{coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			again := l.req
			again.AtLeast = c.units(5)
			c.acquireAgain(l, again)
			armed := l.sent.Add(again.AtLeast)
			again.AtLeast = c.units(1)
			c.acquireAgain(l, again)
			c.acquireAgain(l, l.req)
			c.releaseFreely(l)
			c.takeOver(c.b, c.request(l.req.Name), armed, "after a Release before the AtLeast of a repeat")
		},
	},
	{
		name:   "atleast/release-keep",
		clause: "If both AtLeast and keep apply, the name stays taken for the longer of them.",
		about:  "Request.AtLeast Store.Release",
		needs:  []need{coolDowns},
		f: func(c *check) {
			r := c.request(c.newName())
			r.AtLeast = c.units(5)
			l := c.take(c.a, r, "with AtLeast")
			c.cool(l, c.units(1))
			c.takeOver(c.b, c.request(r.Name), l.sent.Add(r.AtLeast), "after a Release with a cool-down shorter than AtLeast")
		},
	},
}
