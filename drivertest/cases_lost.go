package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var lostCases = []testCase{
	{
		name:   "lost/nobody",
		clause: "For a name that nobody holds, Extend and every other method that needs a hold return ErrLost or ErrExpired and take nothing; Release returns OutcomeGone.",
		f: endsIn(func(c *check) (*lease, []*lease) {
			return &lease{cl: c.a, req: c.request(c.newName())}, nil
		}, driver.OutcomeGone),
	},
	{
		name:   "lost/foreign-token",
		clause: "For a token that holds nothing while somebody else holds the name, every method that needs a hold returns ErrLost and changes nothing. Release never ends anybody else's hold: a wrong token is OutcomeGone, not an error.",
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			return &lease{cl: c.b, req: c.request(l.req.Name)}, []*lease{l}
		}, driver.OutcomeGone),
	},
	{
		name:   "lost/other-name",
		clause: "A token stands for one hold: at another name it holds nothing.",
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			other := c.take(c.b, c.request(c.newName()), "of another free name")
			r := l.req
			r.Name = other.req.Name
			return &lease{cl: c.a, req: r}, []*lease{other, l}
		}, driver.OutcomeGone),
	},
	{
		name:   "lost/released",
		clause: "Release is idempotent: a second Release of a hold returns OutcomeGone. An Extend after Release, such as a late renewal, does not bring the hold back, and no request with Replaces gets it.",
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			return l, nil
		}, driver.OutcomeGone),
	},
	{
		name:   "lost/released-and-taken",
		clause: "A second Release of a hold returns OutcomeGone even if somebody else has the name by then, and does not touch that hold.",
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			return l, []*lease{c.takeSoon(c.b, c.request(l.req.Name), "after Release")}
		}, driver.OutcomeGone),
	},
	{
		name:   "lost/expired",
		clause: "Nothing revives a lease that has run out. If the store can tell that nobody took the name since, Extend returns ErrExpired, else ErrLost; Release returns OutcomeExpired, or OutcomeGone if the store cannot tell, and never OutcomeReleased.",
		needs:  []need{leases},
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			c.lapse(l)
			return l, nil
		}, driver.OutcomeExpired, driver.OutcomeGone),
	},
	{
		name:   "lost/expired-and-taken",
		clause: "If somebody took the name since the lease ran out, Extend returns ErrLost, Release returns OutcomeTaken, or OutcomeGone if the store cannot tell, and nothing touches the newer hold.",
		needs:  []need{leases},
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			return l, []*lease{c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after the lease ran out")}
		}, driver.OutcomeTaken, driver.OutcomeGone),
	},
	{
		name:   "lost/expired-and-left",
		clause: "If somebody took the name since the lease ran out, and has left it again, Extend returns ErrLost, and Release returns OutcomeTaken or OutcomeGone.",
		needs:  []need{leases},
		f:      leftAgain(false),
	},
	{
		name:   "lost/expired-and-read",
		clause: "If somebody had a shared hold since the lease ran out, and has left it again, Extend returns ErrLost, and Release returns OutcomeTaken or OutcomeGone.",
		needs:  []need{leases, readers},
		f:      leftAgain(true),
	},
	{
		name:   "lost/evicted",
		clause: "An evicted holder learns of it: Extend returns ErrLost, Release returns OutcomeTaken or OutcomeGone, and neither touches the next hold.",
		needs:  []need{breaks, inspects},
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.broken(l.req.Name)
			c.wantLost(c.extendGone(c.a, l.req.Name, l.req.Token.Text(), "of a hold that was broken"), "Extend of a hold that was broken")
			return l, []*lease{c.takeSoon(c.b, c.request(l.req.Name), "after Break")}
		}, driver.OutcomeTaken, driver.OutcomeGone),
	},
	{
		name:   "lost/replaced",
		clause: "If Replaces is a live hold, Token takes it over with a full lease and a new fence, and a repeat has the same fence. Replaces is lost: Extend returns ErrLost for it, and Release ends nothing.",
		needs:  []need{replaces},
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.take(c.b, c.swap(l), "with Replaces, of a live hold")
			c.succeeds(n, l, "Acquire with Replaces")
			if g := c.acquireAgain(n, n.req); g.Fence != n.grant.Fence {
				c.failf("the swap had fence %d, its repeat has %d", n.grant.Fence, g.Fence)
			}
			return l, []*lease{n}
		}, driver.OutcomeTaken, driver.OutcomeGone),
	},
	{
		name:   "lost/passed",
		clause: "Pass ends the hold of token and grants the name to next, with a full lease and a greater fence; then token holds nothing. Repeated with the same tokens, Pass returns the same as the first time while next's hold is live: Released, and the same fence.",
		needs:  []need{passes},
		f: endsIn(func(c *check) (*lease, []*lease) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.mustPass(l)
			c.succeeds(n, l, "Pass")
			again, out := c.passOn(l, n.req)
			if again == nil || out != driver.OutcomeReleased || again.grant.Fence != n.grant.Fence {
				c.failf("Pass had fence %d; repeated it returns %q, %+v", n.grant.Fence, out, again)
			}
			c.checkLease(again.grant, n.req.TTL, "Pass, repeated")
			return l, []*lease{n}
		}, driver.OutcomeGone),
	},
}

// endsIn returns the check of a case that ends with a token that holds nothing. Each method is tried
// with this token: none may succeed, touch the hold of somebody else, or take the name. The function
// play returns a hold that is gone or never was, and the holds that must stay. If there are none, the
// name is free. The outcomes are what Release may return for the token.
func endsIn(play func(c *check) (gone *lease, stay []*lease), outcomes ...driver.Outcome) func(*check) {
	return func(c *check) {
		gone, stay := play(c)
		c.holdsNothing(gone, stay, outcomes)
	}
}

// leftAgain checks the token of a hold whose lease ran out, after another process had the name.
func leftAgain(shared bool) func(*check) {
	return func(c *check) {
		l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
		r := c.request(l.req.Name)
		r.Shared = shared
		c.releaseFreely(c.takeOver(c.b, r, l.liveUntil, "by another process, after the lease ran out"))
		for _, u := range c.uses(l) {
			c.wantLost(u.call(), u.what+", of a hold whose name somebody has had since")
		}
		c.outcome(l.cl, l.req.Name, l.req.Token.Text(), 0, "of a hold whose name somebody has had since", driver.OutcomeTaken, driver.OutcomeGone)
	}
}

// succeeds checks the grant of n, which follows the hold l.
func (c *check) succeeds(n, l *lease, what string) {
	c.wantFenceAbove(n, l)
	c.checkLease(n.grant, n.req.TTL, what)
}

// holdsNothing checks that the token of gone holds nothing, and that nothing comes of its use.
func (c *check) holdsNothing(gone *lease, stay []*lease, outcomes []driver.Outcome) {
	name, token := gone.req.Name, gone.req.Token.Text()
	for range 2 {
		for _, u := range c.uses(gone) {
			switch err := u.call(); {
			case !isLoss(err):
				c.failf("%s, with a token that holds nothing: want ErrExpired or ErrLost, got: %v", u.what, orGranted(err))
			case len(stay) > 0 || u.lost:
				c.wantLost(err, u.what+", with a token that holds nothing")
			}
		}
	}
	c.outcome(gone.cl, name, token, 0, "of a token that holds nothing", outcomes...)
	if c.g.CoolDown {
		gone.cl.Release(c.ctx, name, token, c.long()) // this leaves no cool-down
	}
	for _, l := range stay {
		c.verify(l, "after the use of a token that holds nothing")
	}
	if len(stay) > 0 {
		c.mustRefuse(c.a, c.request(name), "after the use of a token that holds nothing", stay...)
		c.mustRefuse(c.b, c.request(name), "after the use of a token that holds nothing", stay...)
		c.releaseFreely(stay[0])
	}
	c.takeSoon(c.b, c.request(name), "of a free name, after the use of a token that holds nothing")
}

// A use is a call that needs a live hold.
type use struct {
	what string
	has  bool
	lost bool // the error is never ErrExpired
	call func() error
}

// uses returns a call of each method that needs a hold, for the hold l.
func (c *check) uses(l *lease) (all []use) {
	extend := func(ttl time.Duration) func() error {
		return func() error { _, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), ttl); return err }
	}
	convert := func(shared bool) func() error {
		return func() error { _, err := c.convert(l, shared); return err }
	}
	for _, u := range []use{
		{what: "Extend", has: true, call: extend(c.long())},
		{what: "Extend with ttl 0", has: true, call: extend(0)},
		{what: "Convert to the same mode", has: c.can(driver.AbilityConverter), call: convert(false)},
		{what: "Convert to shared", has: c.can(driver.AbilityConverter) && c.g.Shared, call: convert(true)},
		{what: "RaiseFence", has: c.can(driver.AbilityFenceRaiser), call: func() error { return l.cl.RaiseFence(c.ctx, l.req.Name, l.req.Token.Text(), l.grant.Fence+1000) }},
		{what: "File", has: c.can(driver.AbilityFileSharer), call: func() error { return c.noFile(l) }},
		{what: "Acquire with Replaces", has: c.g.Bound == driver.BoundToNothing, lost: true, call: func() error { _, err := c.b.Acquire(c.ctx, c.swap(l)); return err }},
		{what: "Pass", has: c.can(driver.AbilityPasser), call: func() error { return c.passed(l) }},
	} {
		if u.has {
			all = append(all, u)
		}
	}
	return all
}

func (c *check) noFile(l *lease) error {
	f, err := l.cl.File(l.req.Name, l.req.Token.Text())
	if err == nil {
		f.Close()
	}
	return err
}

// passed returns ErrLost if Pass of the hold l passes nothing on.
func (c *check) passed(l *lease) error {
	if n, out := c.passOn(l, c.request(l.req.Name)); n == nil && out != driver.OutcomeReleased {
		return driver.ErrLost
	}
	return nil
}
