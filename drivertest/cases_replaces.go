package drivertest

import "github.com/padlock-go/padlock/driver"

var replacesCases = []testCase{
	{
		name:   "replaces/swap",
		clause: "If Replaces is a live hold, Token takes it over with a new fence, and Replaces is lost: Extend returns ErrLost for it, and Release ends nothing.",
		about:  "Request.Replaces",
		needs:  []need{replaces},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.take(c.b, c.swap(l), "with Replaces, of a live hold")
			if c.g.Fence != driver.FenceNone && n.grant.Fence <= l.grant.Fence {
				c.errorf("the hold had fence %d, the one that replaced it has %d", l.grant.Fence, n.grant.Fence)
			}
			c.checkLease(n.grant, n.req.TTL, "Acquire with Replaces")
			c.wantLost(c.extendGone(c.a, l.req.Name, l.req.Token, "of a hold that was replaced"), "Extend of a hold that was replaced")
			c.release(l, 0, "of a hold that was replaced", driver.OutcomeTaken, driver.OutcomeGone)
			c.verify(n, "after the exporter's Release")
			c.mustRefuse(c.a, c.request(l.req.Name), "after a swap", n)
		},
	},
	{
		name:   "replaces/repeat",
		clause: "If Token is live, a request with Replaces is a repeat: the same fence.",
		about:  "Request.Replaces",
		needs:  []need{replaces},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			n := c.take(c.b, c.swap(l), "with Replaces, of a live hold")
			if g := c.acquireAgain(n, n.req); g.Fence != n.grant.Fence {
				c.failf("the swap had fence %d, its repeat has %d", n.grant.Fence, g.Fence)
			}
		},
	},
	{
		name:   "replaces/never-fresh",
		clause: "If Replaces is not live, the error is ErrLost; it is never a fresh grant.",
		about:  "Request.Replaces ErrLost",
		needs:  []need{replaces},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			c.notReplaced(c.swap(l), "a released hold")
			if c.g.Lease {
				l = c.take(c.a, c.brief(c.newName(), 1), "of a free name")
				c.lapse(l)
				c.notReplaced(c.swap(l), "a hold that had run out")
			}
			c.takeSoon(c.b, c.request(l.req.Name), "after a swap was refused")
		},
	},
	{
		name:   "replaces/taken",
		clause: "If somebody else has the name, a request with Replaces returns ErrLost and does not touch that hold.",
		about:  "Request.Replaces ErrLost",
		needs:  []need{replaces},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			r := c.request(l.req.Name)
			r.Replaces = newToken()
			c.notReplaced(r, "a hold that never was, while another holder has the name")
			c.verify(l, "after somebody tried to replace another hold")
		},
	},
	{
		name:   "replaces/mode",
		clause: "A hand-over by Replaces keeps the mode of the hold: a shared hold stays shared.",
		about:  "Request.Replaces Request.Shared",
		needs:  []need{replaces, readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			second := c.readToo(c.a, l)
			r := c.swap(l)
			r.Shared = false
			n := c.take(c.b, r, "with Replaces, of a shared hold that is not the only one")
			c.verify(second, "after another reader was replaced")
			c.releaseFreely(second)
			c.take(c.a, c.readRequest(l.req.Name), "to read after a reader was replaced")
			c.mustRefuse(c.a, c.request(l.req.Name), "after a reader was replaced", n)
		},
	},
	{
		name:   "replaces/bound",
		clause: "A store whose holds are bound to a process or connection returns errors.ErrUnsupported for Replaces.",
		about:  "Request.Replaces Guarantees.Bound",
		needs:  []need{bound},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			_, err := c.b.Acquire(c.ctx, c.swap(l))
			c.wantUnsupported(err, "Acquire with Replaces")
			c.verify(l, "after a swap was refused")
		},
	},
}

func (c *check) notReplaced(r driver.Request, what string) {
	_, err := c.b.Acquire(c.ctx, r)
	c.wantLost(err, "Acquire with Replaces of "+what)
}
