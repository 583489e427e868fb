package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var fenceCases = []testCase{
	{
		name:   "fence/over-release",
		clause: "Each exclusive grant of a name has a greater fence than every grant before it, across releases and processes.",
		about:  "Grant.Fence FenceSession",
		needs:  []need{fences},
		f: func(c *check) {
			ahead := c.takeAhead(c.request(c.newName()))
			c.releaseFreely(ahead)
			name, last := ahead.req.Name, ahead.grant.Fence
			for _, cl := range []*client{c.a, c.a, c.b, c.a, c.openAnother(), c.b} {
				l := c.takeSoon(cl, c.request(name), "after a release")
				last = c.checkFenceAbove(l, last)
				c.releaseFreely(l)
			}
		},
	},
	{
		name:   "fence/over-expiry",
		clause: "Fences grow across a lease that ran out.",
		about:  "Grant.Fence",
		needs:  []need{fences, leases},
		f: func(c *check) {
			l := c.takeAhead(c.brief(c.newName(), 1))
			last := l.grant.Fence
			for range 2 {
				l = c.takeOver(c.b, c.brief(l.req.Name, 1), l.liveUntil, "by another process, after the lease ran out")
				last = c.checkFenceAbove(l, last)
			}
		},
	},
	{
		name:   "fence/over-cooldown",
		clause: "Fences grow across a cool-down.",
		about:  "Grant.Fence",
		needs:  []need{fences, coolDowns},
		f: func(c *check) {
			l := c.takeAhead(c.request(c.newName()))
			c.cool(l, c.units(1))
			n := c.takeSoon(c.b, c.request(l.req.Name), "after a cool-down")
			c.checkFenceAbove(n, l.grant.Fence)
		},
	},
	{
		name:   "fence/shared",
		clause: "A shared grant has a greater fence than every exclusive one before it, even one whose lease ran out; an exclusive grant has a greater fence than every reader before it.",
		about:  "Grant.Fence Request.Shared",
		needs:  []need{fences, readers},
		f:      sharedFences,
	},
	{
		name:   "fence/above",
		clause: "FenceAbove makes the fence of a new grant, exclusive or shared, and of every later one, greater than it; a repeat keeps its fence.",
		about:  "Request.FenceAbove",
		needs:  []need{fences},
		f:      fenceAbove,
	},
	{
		name:   "fence/above-joining",
		clause: "A reader with FenceAbove that joins other readers gets a fence greater than FenceAbove, and so does every later grant.",
		about:  "Request.FenceAbove Grant.Fence",
		needs:  []need{fences, readers},
		f: func(c *check) {
			first := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			r := c.readRequest(first.req.Name)
			r.FenceAbove = first.grant.Fence + 1e6
			second := c.joins(c.b, r)
			last := c.checkFenceAbove(second, r.FenceAbove)
			c.verify(first, "after another reader with FenceAbove")
			c.releaseFreely(first)
			c.releaseFreely(second)
			c.checkFenceAbove(c.takeSoon(c.a, c.request(r.Name), "after readers with FenceAbove"), last)
		},
	},
	{
		name:   "fence/highest",
		clause: "After a grant with FenceAbove MaxFenceAbove the fences of that name keep growing below 2^53, and the fences of other names are not raised.",
		about:  "Request.FenceAbove MaxFenceAbove Grant.Fence",
		needs:  []need{fences},
		alone:  true, // a faulty store may raise the fences of all names
		f: func(c *check) {
			other := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(other)
			r := c.request(c.newName())
			r.FenceAbove = driver.MaxFenceAbove
			l := c.takeSoon(c.a, r, "with the greatest FenceAbove")
			last := c.checkFenceAbove(l, driver.MaxFenceAbove)
			for range 3 {
				c.releaseFreely(l)
				l = c.takeSoon(c.b, c.request(r.Name), "after a grant with the greatest FenceAbove")
				last = c.checkFenceAbove(l, last)
			}
			c.releaseFreely(l)
			for _, name := range []string{other.req.Name, c.newName()} {
				if l := c.take(c.a, c.request(name), "of another name"); l.grant.Fence > driver.MaxFenceAbove {
					c.failf("after FenceAbove for one name another name has fence %d", l.grant.Fence)
				}
			}
		},
	},
	{
		name:   "fence/scale",
		clause: "Durable fences are microseconds since 1970, or one more than the last fence, so that they grow across a loss of data and a move to another store.",
		about:  "FenceDurable Guarantees.Fence",
		needs:  []need{durable},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			if c.h.Advance != nil {
				return // the store has a wall clock of its own, which the test moves
			}
			day, now := uint64(24*time.Hour/time.Microsecond), uint64(time.Now().UnixMicro())
			if l.grant.Fence < now-day || l.grant.Fence > now+day {
				c.failf("the first fence of a name is %d, the time is %d µs since 1970", l.grant.Fence, now)
			}
		},
	},
	{
		name:   "fence/over-restart",
		clause: "Durable fences grow across a restart of the server, even one that lost data.",
		about:  "FenceDurable",
		needs:  []need{durable, restart},
		alone:  true,
		f: func(c *check) {
			name := c.newName()
			l := c.take(c.a, c.brief(name, 1), "of a free name")
			for _, keep := range []bool{true, false} {
				last := l.grant.Fence
				if c.g.Lease {
					c.lapse(l)
				} else {
					c.releaseFreely(l)
				}
				c.passTime(c.unit) // a restart takes a while
				c.restart(keep)
				l = c.afterFault(c.b, c.brief(name, 1), "after a restart")
				c.checkFenceAbove(l, last)
			}
			c.recovers("after the last restart")
		},
	},
}

var raiseCases = []testCase{
	{
		name:   "raisefence/raises",
		clause: "RaiseFence makes the fence of a live hold at least fence, and so every later one greater; it never lowers a fence.",
		about:  "FenceRaiser.RaiseFence",
		needs:  []need{raises, fences},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			raised := l.grant.Fence + 1e6
			for _, to := range []uint64{raised, l.grant.Fence - 1, 0} {
				if err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token, to); err != nil {
					c.failf("RaiseFence of a live hold: %v", err)
				}
				if g := c.acquireAgain(l, l.req); g.Fence < raised {
					c.failf("the fence was raised to %d, and after RaiseFence(%d) the hold has %d", raised, to, g.Fence)
				}
			}
			c.releaseFreely(l)
			c.checkFenceAbove(c.takeSoon(c.b, c.request(l.req.Name), "after RaiseFence"), raised)
		},
	},
	{
		name:   "raisefence/lost",
		clause: "For a token that holds nothing, RaiseFence returns ErrExpired or ErrLost as Extend does.",
		about:  "FenceRaiser.RaiseFence ErrLost",
		needs:  []need{raises, fences},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			err := c.b.RaiseFence(c.ctx, l.req.Name, newToken(), l.grant.Fence+1000)
			c.wantLost(err, "RaiseFence by a token that holds nothing")
			c.releaseFreely(l)
			if err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token, l.grant.Fence+1000); !isLoss(err) {
				c.failf("RaiseFence after Release: want ErrExpired or ErrLost, got: %v", orGranted(err))
			}
		},
	},
	{
		name:   "raisefence/invalid",
		clause: "RaiseFence to 2^53 or more returns ErrInvalid: JSON, Lua and floating point could not keep such a number.",
		about:  "FenceRaiser.RaiseFence MaxFence",
		needs:  []need{raises, fences},
		alone:  true, // a faulty store may leave no fences for other cases
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token, driver.MaxFence)
			c.invalid(err, "fence", "RaiseFence to 2^53")
		},
	},
	{
		name:   "raisefence/used-up",
		clause: "After the last fence below 2^53, everything that needs a new fence fails with ErrFencesUsedUp and changes nothing.",
		about:  "ErrFencesUsedUp MaxFence FenceRaiser.RaiseFence Grant.Fence",
		needs:  []need{raises, fences},
		alone:  true, // a faulty store may use up the fences of all names
		f:      fencesUsedUp,
	},
}

func fencesUsedUp(c *check) {
	l := c.lastFence(false)
	c.releaseFreely(l)
	for _, shared := range []bool{false, c.g.Shared} {
		for _, cl := range []*client{c.a, c.b} {
			r := c.request(l.req.Name)
			r.Shared = shared
			c.wantUsedUp(c.acquireUntilNotHeld(cl, r), "Acquire")
		}
	}
	if c.g.Shared && c.g.Promotion == driver.PromotionAtomic {
		l := c.lastFence(true)
		_, err := c.convert(l, false)
		c.wantUsedUp(err, "Convert to exclusive")
		c.verify(l, "after a promotion for which no fence was left")
	}
}

// lastFence takes a name and gets the greatest fence that a store can grant.
func (c *check) lastFence(shared bool) *lease {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	if err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token, driver.MaxFence-2); err != nil {
		c.failf("RaiseFence to 2^53 - 2: %v", err)
	}
	c.releaseFreely(l)
	r := c.request(l.req.Name)
	r.Shared = shared
	l = c.takeSoon(c.b, r, "after RaiseFence to 2^53 - 2")
	if c.checkFenceAbove(l, driver.MaxFence-2); l.grant.Fence >= driver.MaxFence {
		c.failf("after RaiseFence to 2^53 - 2 a grant has fence %d", l.grant.Fence)
	}
	return l
}

// acquireUntilNotHeld repeats the request while the error is ErrHeld. It returns nil or the first
// error that is not ErrHeld.
func (c *check) acquireUntilNotHeld(cl *client, r driver.Request) (err error) {
	c.poll(c.patience, func() bool {
		r.Token = newToken()
		_, err = cl.Acquire(c.ctx, r)
		return !errors.Is(err, driver.ErrHeld)
	})
	return err
}

func (c *check) wantUsedUp(err error, what string) {
	if !errors.Is(err, driver.ErrFencesUsedUp) {
		c.failf("%s after the last fence was granted: want ErrFencesUsedUp, got: %v", what, orGranted(err))
	}
}

// takeAhead takes the name of r with a fence that is a minute ahead of the clock. If the store
// forgets this fence, its next fence comes from the clock and is smaller. The calling case then
// fails.
func (c *check) takeAhead(r driver.Request) *lease {
	l := c.take(c.a, c.request(r.Name), "of a free name")
	c.releaseFreely(l)
	r.FenceAbove = l.grant.Fence + uint64(time.Minute/time.Microsecond)
	return c.takeSoon(c.a, r, "with FenceAbove")
}

// checkFenceAbove checks that the fence of l is greater than the previous one, and returns the
// fence of l.
func (c *check) checkFenceAbove(l *lease, last uint64) uint64 {
	if l.grant.Fence <= last {
		c.failf("after fence %d a new grant has fence %d", last, l.grant.Fence)
	}
	return l.grant.Fence
}

func sharedFences(c *check) {
	ahead := c.takeAhead(c.request(c.newName()))
	c.releaseFreely(ahead)
	name, last := ahead.req.Name, ahead.grant.Fence
	for i := range 4 {
		x := c.takeSoon(c.a, c.brief(name, 1), "to write, after readers")
		last = c.checkFenceAbove(x, last)
		var r *lease
		if c.g.Lease && i%2 == 1 { // the lease runs out without a Release
			r = c.takeOver(c.a, c.readRequest(name), x.liveUntil, "to read, after a writer's lease ran out")
		} else {
			c.releaseFreely(x)
			r = c.takeSoon(c.a, c.readRequest(name), "to read, after a writer")
		}
		last = c.checkFenceAbove(r, last)
		second := c.readToo(c.b, r)
		for _, l := range []*lease{r, second} {
			if l.grant.Fence <= x.grant.Fence {
				c.failf("after fence %d for a writer a reader has fence %d", x.grant.Fence, l.grant.Fence)
			}
			last = max(last, l.grant.Fence)
			c.releaseFreely(l)
		}
	}
}

func fenceAbove(c *check) {
	name := c.newName()
	l := c.take(c.a, c.request(name), "of a free name")
	floor := l.grant.Fence + 1e6
	again := l.req
	again.FenceAbove = floor
	if g := c.acquireAgain(l, again); g.Fence != l.grant.Fence {
		c.failf("the fence was %d, a repeat with FenceAbove has %d", l.grant.Fence, g.Fence)
	}
	c.releaseFreely(l)
	r := c.request(name)
	r.FenceAbove = floor
	l = c.takeSoon(c.a, r, "with FenceAbove")
	last := c.checkFenceAbove(l, floor)
	c.releaseFreely(l)
	if c.g.Shared {
		r := c.readRequest(name)
		r.FenceAbove = last + 1e6
		l := c.takeSoon(c.b, r, "to read, with FenceAbove")
		last = c.checkFenceAbove(l, r.FenceAbove)
		c.releaseFreely(l)
	}
	c.checkFenceAbove(c.takeSoon(c.b, c.request(name), "after FenceAbove"), last)
}
