package drivertest

import "github.com/padlock-go/padlock/driver"

var breakCases = []testCase{
	{
		name:   "break/ends-holds",
		clause: "Break ends all holds and the cool-down of a name if its fence is still the one that was seen; then the name is free.",
		about:  "Admin.Break",
		needs:  []need{breaks, inspects},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.broken(l.req.Name)
			c.takeSoon(c.b, c.request(l.req.Name), "after Break")
			if c.g.Shared {
				l, _ = c.twoReaders()
				c.broken(l.req.Name)
				c.takeSoon(c.b, c.request(l.req.Name), "after Break of two readers")
			}
			if c.g.CoolDown {
				l = c.take(c.a, c.request(c.newName()), "of a free name")
				c.cool(l, c.long())
				c.broken(l.req.Name)
				c.takeSoon(c.b, c.request(l.req.Name), "after Break of a cool-down")
			}
		},
	},
	{
		name:   "break/evicted",
		clause: "An evicted holder learns of it: Extend returns ErrLost, Release returns OutcomeTaken or OutcomeGone, and neither touches the next hold.",
		about:  "Admin.Break ErrLost OutcomeTaken",
		needs:  []need{breaks, inspects},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.broken(l.req.Name)
			c.wantLost(c.extendGone(c.a, l.req.Name, l.req.Token, "of a hold that was broken"), "Extend of a hold that was broken")
			n := c.takeSoon(c.b, c.request(l.req.Name), "after Break")
			c.release(l, 0, "of a hold that was broken", driver.OutcomeTaken, driver.OutcomeGone)
			c.verify(n, "after the evicted one's Release")
		},
	},
	{
		name:   "break/another-hold",
		clause: "If the fence is not the one that was seen, the name has another hold: Break returns ErrLost and changes nothing.",
		about:  "Admin.Break ErrLost",
		needs:  []need{breaks, inspects, fences},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			seen := c.inspect(l.req.Name).Fence
			c.releaseFreely(l)
			n := c.takeSoon(c.a, c.request(l.req.Name), "after Release")
			for _, wrong := range []uint64{seen, n.grant.Fence + 1, 0} {
				_, err := c.b.Break(c.ctx, l.req.Name, wrong)
				c.wantLost(err, "Break of another hold than was seen")
			}
			c.verify(n, "after Break of another hold")
		},
	},
	{
		name:   "break/fence",
		clause: "Break mints a fence: it is greater than the evicted holder's and less than the next one.",
		about:  "Admin.Break Grant.Fence",
		needs:  []need{breaks, inspects, fences},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			f := c.broken(l.req.Name)
			if f <= l.grant.Fence || f >= driver.MaxFence {
				c.failf("the hold had fence %d, Break returns %d", l.grant.Fence, f)
			}
			c.checkFenceAbove(c.takeSoon(c.b, c.request(l.req.Name), "after Break"), f)
		},
	},
}

// broken breaks all holds on name.
func (c *check) broken(name string) uint64 {
	f, err := c.b.Break(c.ctx, name, c.inspect(name).Fence)
	if err != nil {
		c.failf("Break with the fence that Inspect returned: %v", err)
	}
	return f
}
