package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var extendCases = []testCase{
	{
		name:   "extend/own",
		clause: "Extend makes the lease of a live hold last at least ttl from now, and keeps its fence.",
		about:  "Store.Extend Grant.TTL",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 3), "of a free name")
			c.passTime(c.units(1))
			g := c.extend(l, c.units(4))
			c.checkLease(g, c.units(4), "Extend")
			c.sameFence(l, g, "Extend")
			c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after Extend")
		},
	},
	{
		name:   "extend/never-shortens",
		clause: "Extend never shortens a lease.",
		about:  "Store.Extend",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 4), "of a free name")
			first := l.liveUntil
			c.extend(l, c.units(1))
			c.takeOver(c.b, c.request(l.req.Name), first, "by another process, after Extend by less than was left")
		},
	},
	{
		name:   "extend/verify",
		clause: "Extend with ttl 0 changes nothing and only verifies the hold: a lease that is only verified runs out.",
		about:  "Store.Extend",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.sameFence(l, c.verify(l, "of a live hold"), "Extend with ttl 0")
			if c.g.Lease {
				c.verifyUntilItLapses()
			}
		},
	},
	{
		name:   "extend/mode",
		clause: "Extend of an exclusive hold never sets Grant.Shared.",
		about:  "Grant.Shared",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			if c.verify(l, "of an exclusive hold").Shared {
				c.errorf("Extend with ttl 0 says that an exclusive hold is shared")
			}
			if c.g.Lease && c.extend(l, c.units(4)).Shared {
				c.errorf("Extend says that an exclusive hold is shared")
			}
		},
	},
	{
		name:   "extend/foreign-token",
		clause: "For a token that holds nothing while somebody else holds the name, Extend returns ErrLost and changes nothing.",
		about:  "Store.Extend ErrLost",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.wantLost(c.extendGone(c.b, l.req.Name, newToken(), "with a token that never held anything"), "Extend with a token that never held anything")
			_, err := c.b.Extend(c.ctx, l.req.Name, newToken(), 0)
			c.wantLost(err, "Extend with ttl 0 and a token that never held anything")
			c.verify(l, "after another token's Extend")
		},
	},
	{
		name:   "extend/nobody",
		clause: "For a name that nobody holds, Extend returns ErrLost or ErrExpired and takes nothing.",
		about:  "Store.Extend ErrLost",
		f: func(c *check) {
			name := c.newName()
			c.extendGone(c.a, name, newToken(), "of a name that was never held")
			c.take(c.b, c.request(name), "after another token's Extend of the free name")
		},
	},
	{
		name:   "extend/never-revives",
		clause: "Extend never revives a lease that has run out: it returns ErrExpired if it can tell that nobody took the name since, else ErrLost.",
		about:  "Store.Extend ErrExpired ErrLost",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			c.lapse(l)
			c.extendGone(c.a, l.req.Name, l.req.Token, "after the lease had run out")
			c.extendGone(c.a, l.req.Name, l.req.Token, "for the second time after the lease had run out")
			c.takeSoon(c.b, c.request(l.req.Name), "after Extend of a hold that had run out")
		},
	},
	{
		name:   "extend/after-taken",
		clause: "If somebody took the name since the lease ran out, Extend returns ErrLost and does not touch the newer hold.",
		about:  "Store.Extend ErrLost",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			n := c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after the lease ran out")
			c.wantLost(c.extendGone(c.a, l.req.Name, l.req.Token, "after the name was taken"), "Extend after the name was taken")
			c.verify(n, "after the former holder's Extend")
		},
	},
	{
		name:   "extend/abandoned",
		clause: "A hold that nobody extends ends after its TTL, at most two fifths of it later, even if its process extends other holds. Extend of a hold never fails because of another hold.",
		about:  "Store.Extend Request.TTL Guarantees.Observed",
		needs:  []need{leases},
		f: func(c *check) {
			never := c.take(c.a, c.brief(c.newName(), 5), "of a free name")
			once := c.take(c.a, c.brief(c.newName(), 5), "of another free name")
			kept := []*lease{c.take(c.a, c.brief(c.newName(), 5), "of a free name"), c.take(c.a, c.brief(c.newName(), 5), "of a free name")}
			c.passTime(c.units(2))
			c.extend(once, c.units(5))
			c.endsInTime(never, kept)
			c.endsInTime(once, kept)
		},
	},
	{
		name:   "extend/after-release",
		clause: "An Extend after Release, such as a late renewal, does not bring the hold back.",
		about:  "Store.Extend Store.Release",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			c.extendGone(c.a, l.req.Name, l.req.Token, "after Release")
			c.takeSoon(c.b, c.request(l.req.Name), "after a late Extend of a released hold")
		},
	},
}

// endsInTime extends the kept holds again and again, until the lease of l has ended. It checks that
// the lease does not end too early or too late.
func (c *check) endsInTime(l *lease, kept []*lease) {
	r := c.request(l.req.Name)
	limit := l.req.TTL * 2 / 5
	if c.g.Observed {
		limit += l.req.TTL
	}
	for c.clockTime().Before(l.goneAfter.Add(limit + c.patience)) {
		for _, k := range kept {
			c.extend(k, k.req.TTL)
		}
		asked := c.clockTime()
		if _, err := c.tryAnew(c.b, &r, "of a name whose holder does nothing"); err == nil {
			switch late := asked.Sub(l.goneAfter.Add(limit + c.unit)); {
			case c.clockTime().Before(l.liveUntil.Add(-slack(l.req.TTL))):
				c.failf("a lease ended %v too early", l.liveUntil.Sub(c.clockTime()))
			case late > 0 && (c.unit == c.run.unit || limit < 3*time.Second): // with longer leases, the same delay is no longer late
				c.notProven(true, "a lease of %v that nobody extended ended %v later than allowed", l.req.TTL, late)
			case late > 0:
				c.failLate(limit, "a lease of %v that nobody extended ended %v later than allowed", l.req.TTL, late)
			}
			return
		}
		c.passTime(c.unit / 4)
	}
	c.failLate(c.patience, "a lease of %v that nobody extended had not ended %v after its end", l.req.TTL, limit+c.patience)
}

// verifyUntilItLapses verifies leases until they have run out. In the last milliseconds of a lease
// it does so without a pause, because the time that is left must never be rounded to 0. On a busy
// machine the process may stand still at the end of a lease. So there are many leases, and they end
// one soon after the other: the first request after a standstill finds a lease that is about to
// end. A store that keeps a lease for longer than it said is then asked less and less often.
func (c *check) verifyUntilItLapses() {
	for range 3 {
		if c.verifyLeases() {
			return
		}
	}
}

// verifyLeases reports whether a request came in the last milliseconds of a lease.
func (c *check) verifyLeases() bool {
	const n, apart = 40, 7 * time.Millisecond
	var leases []*lease
	end := c.clockTime().Add(c.units(2))
	for range n {
		r := c.request(c.newName())
		r.TTL = max(c.unit, end.Sub(c.clockTime()))
		leases = append(leases, c.take(c.a, r, "of a free name"))
		end = end.Add(apart)
	}
	for _, l := range leases {
		if c.verifyOne(l) < 2*time.Millisecond {
			return true
		}
	}
	return false
}

// verifyOne returns the shortest time that was left of the lease at a request: as the store says, or
// the time from the last request that found the lease until it was seen to be gone.
func (c *check) verifyOne(l *lease) time.Duration {
	end, least, last := c.clockTime().Add(c.patience), l.grant.TTL, l.sent
	for c.clockTime().Before(end) {
		sent := c.clockTime()
		g, err := c.a.Extend(c.ctx, l.req.Name, l.req.Token, 0)
		if err != nil && !isLoss(err) {
			c.failf("Extend with ttl 0: want ErrExpired or ErrLost, got: %v", err)
		}
		if now := c.clockTime(); err != nil && now.Before(l.liveUntil.Add(-slack(l.req.TTL))) {
			c.failf("Extend with ttl 0 called the lease lost %v before its end", l.liveUntil.Sub(now).Round(time.Millisecond))
		}
		if err != nil {
			return min(least, c.clockTime().Sub(last))
		}
		least, last = min(least, g.TTL), sent
		left := l.liveUntil.Sub(c.clockTime())
		if left < 0 && least < 2*time.Millisecond {
			left = -left / 4
		}
		c.passTime(max(100*time.Microsecond, min(c.unit/8, left-5*time.Millisecond)))
	}
	c.failLate(c.patience, "a lease of %v that was only verified had not run out after %v", l.req.TTL, c.patience)
	return 0
}

// sameFence checks that g has the fence of l. It also accepts fence 0, from a store that did not
// read the fence.
func (c *check) sameFence(l *lease, g driver.Grant, what string) {
	if g.Fence != 0 && g.Fence != l.grant.Fence {
		c.failf("%s returns fence %d; the hold has %d", what, g.Fence, l.grant.Fence)
	}
}
