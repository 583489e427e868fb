package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var extendCases = []testCase{
	{
		name:   "extend/lengthens",
		clause: "Extend, a repeat of Acquire and Convert make the lease of a live hold last at least for the TTL of the request, and then it ends. Only promotion changes the fence, and no exclusive hold is said to be shared.",
		needs:  []need{leases},
		f:      func(c *check) { c.renewed(3, 5) },
	},
	{
		name:   "extend/never-shortens",
		clause: "Extend never shortens a lease, and neither does a repeat of Acquire or Convert.",
		needs:  []need{leases},
		f:      func(c *check) { c.renewed(5, 1) },
	},
	{
		name:   "extend/verify",
		clause: "Extend with ttl 0 changes nothing and only verifies the hold: a lease that is only verified runs out.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.sameFence(l, c.verify(l, "of a live hold"), "Extend with ttl 0")
			if c.g.Lease {
				c.verifyUntilItLapses()
			}
		},
	},
	{
		name:   "extend/abandoned",
		clause: "A hold that nobody extends ends after its TTL, at most two fifths of it later, even if its process extends other holds. Extend of a hold never fails because of another hold.",
		needs:  []need{leases},
		f: func(c *check) {
			never := c.take(c.a, c.brief(c.newName(), 5), "of a free name")
			once := c.take(c.a, c.brief(c.newName(), 5), "of another free name")
			kept := []*lease{c.take(c.a, c.brief(c.newName(), 5), "of a free name"), c.take(c.a, c.brief(c.newName(), 5), "of a free name")}
			c.nap(c.units(2))
			c.extend(once, c.units(5))
			c.endsInTime(never, kept)
			c.endsInTime(once, kept)
		},
	},
}

// A renewal is a request that may make the lease of a live hold longer.
type renewal struct {
	what         string
	shared, then bool // the mode of the hold before and after it
	ask          func(l *lease, ttl time.Duration) (driver.Grant, error)
}

// renewals lists the renewals that the store supports.
func (c *check) renewals() []renewal {
	all := []renewal{
		{what: "Extend", ask: func(l *lease, ttl time.Duration) (driver.Grant, error) {
			return l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), ttl)
		}},
		{what: "a repeat of Acquire", ask: func(l *lease, ttl time.Duration) (driver.Grant, error) {
			r := l.req
			r.TTL = ttl
			return l.cl.Acquire(c.ctx, r)
		}},
	}
	for _, to := range [][2]bool{{false, false}, {false, true}, {true, true}, {true, false}} {
		promotion := to[0] && !to[1]
		if !c.can(driver.AbilityConverter) || to[0] != to[1] && !c.g.Shared || to[0] && !c.g.Shared || promotion && c.g.Promotion != driver.PromotionAtomic {
			continue
		}
		all = append(all, renewal{"Convert", to[0], to[1], func(l *lease, ttl time.Duration) (driver.Grant, error) {
			r := l.req
			r.Shared, r.TTL = to[1], ttl
			return l.cl.Convert(c.ctx, r)
		}})
	}
	return all
}

// renewed makes holds with leases of first units. Later it renews each in another way, with a lease
// of then units from that moment, and checks when the leases end.
func (c *check) renewed(first, then int) {
	var all []*lease
	ways := c.renewals()
	for _, w := range ways {
		r := c.brief(c.newName(), first)
		r.Shared = w.shared
		all = append(all, c.take(c.a, r, "of a free name"))
	}
	c.nap(c.units(1))
	for i, w := range ways {
		l, sent := all[i], time.Now()
		g, err := w.ask(l, c.units(then))
		if err != nil {
			c.failBefore(l.liveUntil, "%s of a live hold was refused: %v", w.what, err)
		}
		if then > first {
			c.checkLease(g, c.units(then), w.what)
		}
		if (!w.shared || w.then) && g.Fence != 0 && g.Fence != l.grant.Fence {
			c.failBefore(l.liveUntil, "%s returns fence %d; the hold has %d", w.what, g.Fence, l.grant.Fence)
		}
		if g.Shared && !w.then {
			c.errorf("%s says that an exclusive hold is shared", w.what)
		}
		l.setEnd(c, g, sent)
	}
	c.nap(c.units(3))
	for i, l := range all {
		c.mustRefuse(c.b, c.request(l.req.Name), "by another process, after "+ways[i].what, l)
	}
	for i, l := range all {
		c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after "+ways[i].what)
	}
}

// endsInTime extends the kept holds again and again, until the lease of l has ended. It checks that
// the lease does not end too early or too late.
func (c *check) endsInTime(l *lease, kept []*lease) {
	r := c.request(l.req.Name)
	limit := l.req.TTL * 2 / 5
	if c.g.Observed {
		limit += l.req.TTL
	}
	for time.Now().Before(l.goneAfter.Add(limit + c.patience)) {
		for _, k := range kept {
			c.extend(k, k.req.TTL)
		}
		asked := time.Now()
		if _, err := c.tryAnew(c.b, &r, "of a name whose holder does nothing"); err == nil {
			switch late := asked.Sub(l.goneAfter.Add(limit + c.unit)); {
			case time.Now().Before(l.liveUntil.Add(-slack(l.req.TTL))):
				c.failf("%v", safety.ErrTooEarly("a lease ended %v before its time", time.Until(l.liveUntil)))
			case late > 0 && (c.unit == c.run.unit || limit < 3*time.Second): // with longer leases, the same delay is no longer late
				c.notProven(true, "a lease of %v that nobody extended ended %v later than allowed", l.req.TTL, late)
			case late > 0:
				c.failLate(limit, "a lease of %v that nobody extended ended %v later than allowed", l.req.TTL, late)
			}
			return
		}
		c.nap(c.unit / 4)
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
	end := time.Now().Add(c.units(2))
	for range n {
		r := c.request(c.newName())
		r.TTL = max(c.unit, time.Until(end))
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
	end, least, last := time.Now().Add(c.patience), l.grant.TTL, l.sent
	for time.Now().Before(end) {
		sent := time.Now()
		g, err := c.a.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
		if err != nil && !isLoss(err) {
			c.failf("Extend with ttl 0: want ErrExpired or ErrLost, got: %v", err)
		}
		if now := time.Now(); err != nil && now.Before(l.liveUntil.Add(-slack(l.req.TTL))) {
			c.failf("Extend with ttl 0 called the lease lost %v before its end", l.liveUntil.Sub(now).Round(time.Millisecond))
		}
		if err != nil {
			return min(least, time.Since(last))
		}
		least, last = min(least, g.TTL), sent
		left := time.Until(l.liveUntil)
		if left < 0 && least < 2*time.Millisecond {
			left = -left / 4
		}
		c.nap(max(100*time.Microsecond, min(c.unit/8, left-5*time.Millisecond)))
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
