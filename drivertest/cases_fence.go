package drivertest

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var fenceCases = []testCase{
	{
		name:   "fence/grows",
		clause: "Each exclusive grant of a name has a greater fence than every grant before it, across releases, processes, cool-downs, leases that ran out, and Break, which mints one itself.",
		f:      fencesGrow,
	},
	{
		name:   "fence/shared",
		clause: "A shared grant has a greater fence than every exclusive one before it, even one whose lease ran out; an exclusive grant has a greater fence than every reader before it.",
		needs:  []need{readers},
		f:      sharedFences,
	},
	{
		name:   "fence/above",
		clause: "FenceAbove makes the fence of a new grant, and of every later one, greater than it: of an exclusive hold or a reader, of a waiter, of a swap, of what Pass grants, and of a reader that joins others. A repeat keeps its fence.",
		f:      fenceAbove,
	},
	{
		name:   "fence/highest",
		clause: "After a grant with FenceAbove MaxFenceAbove the fences of that name keep growing below 2^53, and the fences of other names are not raised.",
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
		needs:  []need{durable},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			day, now := uint64(24*time.Hour/time.Microsecond), uint64(time.Now().UnixMicro())
			if l.grant.Fence < now-day || l.grant.Fence > now+day {
				c.failf("the first fence of a name is %d, the time is %d µs since 1970", l.grant.Fence, now)
			}
		},
	},
	{
		name:   "fence/over-restart",
		clause: "Durable fences grow across a restart of the server, even one that lost data.",
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
				c.nap(c.unit) // a restart takes a while
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
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			raised := l.grant.Fence + 1e6
			for _, to := range []uint64{raised, l.grant.Fence - 1, 0} {
				if err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token.Text(), to); err != nil {
					c.failf("RaiseFence of a live hold: %v", err)
				}
				if err := safety.FenceKeeps(c.acquireAgain(l, l.req).Fence, raised); err != nil {
					c.failf("after RaiseFence(%d): %v", to, err)
				}
			}
			c.releaseFreely(l)
			c.checkFenceAbove(c.takeSoon(c.b, c.request(l.req.Name), "after RaiseFence"), raised)
		},
	},
	{
		name:   "raisefence/used-up",
		clause: "After the last fence below 2^53, everything that needs a new fence fails with ErrFencesUsedUp and changes nothing.",
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
	if err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token.Text(), driver.MaxFence-2); err != nil {
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
		r.Token = driver.TokenOf(newToken())
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
			last = max(last, c.checkFenceAbove(l, x.grant.Fence))
			c.releaseFreely(l)
		}
	}
}

func fencesGrow(c *check) {
	l := c.takeAhead(c.request(c.newName()))
	name, last := l.req.Name, l.grant.Fence
	next := func(cl *client, r driver.Request, when string) {
		l = c.takeSoon(cl, r, when)
		last = c.checkFenceAbove(l, last)
	}
	for _, cl := range []*client{c.a, c.a, c.b, c.a, c.openAnother(), c.b} {
		c.releaseFreely(l)
		next(cl, c.request(name), "after a release")
	}
	if c.g.CoolDown {
		c.cool(l, c.units(1))
		next(c.b, c.request(name), "after a cool-down")
	}
	if c.can(driver.AbilityBreak | driver.AbilityInspect) {
		f := c.broken(name)
		if err := safety.FenceRises(f, last); err != nil || f >= driver.MaxFence {
			c.failf("the hold had fence %d, Break returns %d: %v", last, f, err)
		}
		last = f
		next(c.b, c.request(name), "after Break")
	}
	if c.g.Lease {
		c.releaseFreely(l)
		next(c.a, c.brief(name, 1), "after a release")
		for range 2 {
			l = c.takeOver(c.b, c.brief(name, 1), l.liveUntil, "by another process, after the lease ran out")
			last = c.checkFenceAbove(l, last)
		}
	}
}

func fenceAbove(c *check) {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	again, last := l.req, l.grant.Fence
	again.FenceAbove = last + 1e6
	if g := c.acquireAgain(l, again); g.Fence != last {
		c.failf("the fence was %d, a repeat with FenceAbove has %d", last, g.Fence)
	}
	c.releaseFreely(l)
	for _, get := range c.grants() {
		r := c.request(l.req.Name)
		r.FenceAbove = last + 1e6
		n := get(r)
		if n == nil {
			continue
		}
		last = c.checkFenceAbove(n, r.FenceAbove)
		c.releaseFreely(n)
		n = c.takeSoon(c.b, c.request(r.Name), "after FenceAbove")
		last = c.checkFenceAbove(n, last)
		c.releaseFreely(n)
	}
}

// grants lists the ways to a new grant that the store supports, for a request for a free name. A
// way returns nil if the store granted nothing, which it may do.
func (c *check) grants() []func(driver.Request) *lease {
	all := []func(driver.Request) *lease{
		func(r driver.Request) *lease { return c.takeSoon(c.a, r, "with FenceAbove") },
	}
	holder := func(r driver.Request) *lease { return c.takeSoon(c.a, c.request(r.Name), "of a free name") }
	if c.can(driver.AbilityWaiter) {
		all = append(all, func(r driver.Request) *lease {
			l := holder(r)
			w := c.waitForName(c.b, r, true)
			c.queued(r.Name, 1)
			c.releaseFreely(l)
			return c.awaitHold(w, "waiting with FenceAbove")
		})
	}
	if c.g.Bound == driver.BoundToNothing {
		all = append(all, func(r driver.Request) *lease {
			r.Replaces = holder(r).req.Token
			return c.take(c.a, r, "with Replaces and FenceAbove")
		})
	}
	if c.can(driver.AbilityPasser) {
		all = append(all, func(r driver.Request) *lease {
			l := holder(r)
			n, _ := c.passOn(l, r)
			return n
		})
	}
	if c.g.Shared {
		read := func(r driver.Request) *lease {
			r.Shared = true
			return c.takeSoon(c.b, r, "to read, with FenceAbove")
		}
		join := func(r driver.Request) *lease {
			first := c.takeSoon(c.a, c.readRequest(r.Name), "to read a free name")
			r.Shared = true
			second := c.joins(c.b, r)
			c.verify(first, "after another reader with FenceAbove")
			c.releaseFreely(first)
			return second
		}
		all = append(all, read, join)
	}
	return all
}
