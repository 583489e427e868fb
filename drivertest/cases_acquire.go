package drivertest

import (
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var acquireCases = []testCase{
	{
		name:   "acquire/free",
		clause: "Acquire of a free name is granted, with all of the lease that was asked for.",
		f: func(c *check) {
			r := c.request(c.newName())
			l := c.take(c.a, r, "of a free name")
			c.checkLease(l.grant, r.TTL, "Acquire")
			c.checkFrom(l.grant)
			if l.grant.Shared || c.verify(l, "after Acquire").Shared {
				c.errorf("an exclusive hold is said to be shared")
			}
		},
	},
	{
		name:   "acquire/contend",
		clause: "While a hold is live, Acquire returns a *HeldError for another token, in every store opened on the same place, shared or not.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.mustRefuse(c.a, c.request(l.req.Name), "by another token of the same process", l)
			c.mustRefuse(c.b, c.request(l.req.Name), "by another process", l)
			if c.g.Shared {
				c.mustRefuse(c.a, c.readRequest(l.req.Name), "to read, by the same process", l)
				c.mustRefuse(c.b, c.readRequest(l.req.Name), "to read", l)
			}
			c.verify(l, "after others asked for the name")
		},
	},
	{
		name:   "acquire/used-often",
		clause: "A client that has used a name often sees what others write: a hold with a longer holder, and then its cool-down.",
		f:      usedOften,
	},
	{
		name:   "acquire/spent",
		clause: "Request.Spent changes only errors: a free name is granted and a held one is refused as without it, even if Spent lists the token that holds the name. More than MaxSpent tokens are ErrInvalid.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, cl := range []*client{c.a, c.b} {
				r := c.request(l.req.Name)
				r.Spent = []driver.Token{driver.TokenOf(newToken()), l.req.Token}
				c.mustRefuse(cl, r, "of a held name, with the holder's token in Spent", l)
			}
			c.verify(l, "after others asked for the name")
			c.releaseFreely(l)
			r := c.request(l.req.Name)
			r.Spent = []driver.Token{l.req.Token}
			l = c.takeSoon(c.b, r, "with a spent token in Spent")
			c.verify(l, "that was taken with a spent token in Spent")
			r = c.request(c.newName())
			r.Spent = slices.Repeat([]driver.Token{driver.TokenOf(newToken())}, driver.MaxSpent+1)
			_, err := c.a.Acquire(c.ctx, r)
			c.invalid(err, "spent", "Acquire with MaxSpent+1 spent tokens")
		},
	},
	{
		name:   "acquire/never-queues",
		clause: "Acquire makes one try and never queues: a token that was refused does not wait and delays nobody.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for range 3 {
				c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
			}
			c.releaseFreely(l)
			c.within(driver.MaxReservation/4, c.a, c.request(l.req.Name), "after the release, when others were refused before it")
		},
	},
	{
		name:   "acquire/repeat",
		clause: "Acquire is idempotent for each token: while the token's hold is live, the same request again returns the same fence.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for range 3 {
				if g := c.acquireAgain(l, l.req); g.Fence != l.grant.Fence {
					c.failf("the first grant has fence %d, a repeat has %d", l.grant.Fence, g.Fence)
				}
			}
			c.releaseFreely(l)
			n := c.takeSoon(c.b, c.request(l.req.Name), "after one Release of a hold that was asked for four times")
			c.releaseFreely(n)
		},
	},
	{
		name:   "acquire/repeat-shorter",
		clause: "A repeat of Acquire never shortens a lease, and neither does an Extend, whichever process sends them or made the lease as long as it is.",
		needs:  []need{lapses},
		f:      repeatShorter,
	},
	{
		name:   "acquire/repeat-mode",
		clause: "A repeat of Acquire leaves the hold in the mode that was asked for the first time. If it asks for an exclusive hold and has a shared one, the Grant says so, or the error is ErrInvalid.",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			c.releaseFreely(c.readToo(c.b, l))
			c.repeatInMode(l, false)
			other := c.take(c.b, c.readRequest(l.req.Name), "to read while there is a reader that asked again for an exclusive hold")
			c.releaseFreely(l)
			c.releaseFreely(other)

			x := c.takeSoon(c.a, c.request(c.newName()), "of a free name")
			c.repeatInMode(x, true)
			c.mustRefuse(c.b, c.readRequest(x.req.Name), "to read while there is an exclusive hold that was asked for again as shared", x)
		},
	},
	{
		name:   "acquire/expiry",
		clause: "A lease ends by itself: not before the time in the Grant, and then another token gets the name. The same request is a new try then, and its grant has a new fence.",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 2), "of a free name")
			c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after the holder went away")
			l = c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			c.lapse(l)
			n := c.take(c.a, l.req, "again, after its lease ran out")
			c.wantFenceAbove(n, l)
		},
	},
	{
		name:   "tokens/opaque",
		clause: "A token is an opaque string: two tokens that differ in any way are two tokens.",
		f:      opaqueTokens,
	},
}

// repeatInMode repeats the request of l in another mode.
func (c *check) repeatInMode(l *lease, shared bool) {
	r := l.req
	r.Shared = shared
	g, err := l.cl.Acquire(c.ctx, r)
	switch {
	case errors.Is(err, driver.ErrInvalid):
	case err != nil:
		c.failBefore(l.liveUntil, "a repeat in another mode: it must be granted, or be ErrInvalid, got: %v", err)
	case g.Shared == shared:
		c.errorf("a repeat that asks for another mode (shared: %v) returns a Grant with Shared: %v", shared, g.Shared)
	}
}

func repeatShorter(c *check) {
	other := c.b
	if c.g.Bound != driver.BoundToNothing && !c.g.Detached { // only the same process can repeat
		other = c.a
	}
	var all []*lease
	for _, units := range []int{4, 4, 2, 2} {
		r := c.brief(c.newName(), units)
		r.Detached = c.g.Detached
		l := c.take(c.a, r, "of a free name")
		c.checkLease(l.grant, r.TTL, "Acquire")
		all = append(all, l)
	}
	again := func(l *lease, cl *client) {
		r := l.req
		r.TTL = c.units(1)
		g, err := cl.Acquire(c.ctx, r)
		raised := g.Fence > l.grant.Fence && cl != l.cl && c.g.Lacks&driver.AbilityStoreID != 0 // the store may have several members
		if err != nil || g.Fence != l.grant.Fence && !raised {
			c.failBefore(l.liveUntil, "a repeat with a shorter TTL: want the fence %d, got %d, %v", l.grant.Fence, g.Fence, orGranted(err))
		}
	}
	extend := func(l *lease, cl *client, units int) {
		sent := time.Now()
		g, err := cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), c.units(units))
		if err != nil {
			c.failBefore(l.liveUntil, "Extend of a live hold was refused: %v", err)
		}
		if units > 1 {
			c.checkLease(g, c.units(units), "Extend")
			l.setEnd(c, g, sent)
		}
	}
	again(all[0], other)
	again(all[1], c.a)
	extend(all[1], other, 1)
	extend(all[2], other, 4)
	again(all[2], c.a)
	extend(all[3], other, 4)
	extend(all[3], c.a, 1)
	c.nap(c.units(3))
	for _, l := range all {
		c.mustRefuse(c.b, c.request(l.req.Name), "after a repeat with a shorter TTL", l)
	}
	for _, l := range all {
		c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after a repeat with a shorter TTL")
	}
}

func opaqueTokens(c *check) {
	base := newToken()
	pairs := [][2]string{
		{base + "a", base + "A"}, {base, base + "="}, {base, base + " "}, {base + ":r", base + ":w"},
		{base + "/é", base + "/e"}, {base + "%", base + "%%"}, {base + "\"'", base + "\"\""}, {base + "\n", base},
	}
	for _, p := range pairs {
		r := c.request(c.newName())
		r.Token = driver.TokenOf(p[0])
		l := c.take(c.a, r, "of a free name")
		other := r
		other.Token = driver.TokenOf(p[1])
		c.mustRefuse(c.a, other, "with a token that differs a little from the holder's", l)
		c.a.Release(c.ctx, r.Name, p[1], 0)
		c.verify(l, "after a token that differs a little was released")
		c.releaseFreely(l)
	}
}

// usedOften lets one client use a name often, as a short holder. Then another client has the name,
// with the longest holder. A store that keeps what it has read must notice that.
func usedOften(c *check) {
	pairs := 20
	if c.h.Slow {
		pairs = 5
	}
	short := driver.Request{Name: c.newName(), TTL: c.long()}
	for range pairs {
		short.Token = driver.TokenOf(newToken())
		c.releaseFreely(c.takeSoon(c.a, short, "of a name that this client uses often"))
	}
	long := c.request(short.Name)
	long.Detached = c.g.Detached
	long.Holder.Label = c.longestHolder().Label
	l := c.takeSoon(c.b, long, "with a long label")
	short.Token = driver.TokenOf(newToken())
	c.mustRefuse(c.a, short, "by a client that has used the name often", l)
	c.verify(l, "after a client that has used the name often was refused")
	if !c.g.CoolDown {
		c.releaseFreely(l)
		return
	}
	end := time.Now().Add(c.long())
	c.cool(l, c.long())
	short.Token = driver.TokenOf(newToken())
	c.coolingFor(c.a, short, end)
}
