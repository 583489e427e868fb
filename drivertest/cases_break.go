package drivertest

var breakCases = []testCase{
	{
		name:   "break/ends-holds",
		clause: "Break ends all holds and the cool-down of a name if its fence is still the one that was seen, and mints a fence; then the name is free, and the next hold has a greater fence.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			l = c.takeAbove(c.broken(l.req.Name), l.req.Name, "after Break")
			c.releaseFreely(l)
			if minted, err := c.b.Break(c.ctx, l.req.Name, c.inspect(l.req.Name).Fence); err == nil { // a store may know nothing to break
				c.takeAbove(minted, l.req.Name, "after Break of a free name")
			}
			if c.g.Shared {
				l, _ = c.twoReaders()
				c.takeAbove(c.broken(l.req.Name), l.req.Name, "after Break of two readers")
			}
			if c.g.CoolDown {
				l = c.take(c.a, c.request(c.newName()), "of a free name")
				c.cool(l, c.long())
				c.takeAbove(c.broken(l.req.Name), l.req.Name, "after Break of a cool-down")
			}
		},
	},
	{
		name:   "break/another-hold",
		clause: "If the fence is not the one that was seen, the name has another hold: Break returns ErrLost and changes nothing.",
		needs:  []need{fences},
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
}

// takeAbove takes a name after Break, which minted a fence.
func (c *check) takeAbove(minted uint64, name, after string) *lease {
	l := c.takeSoon(c.b, c.request(name), after)
	if minted > 0 {
		c.checkFenceAbove(l, minted)
	}
	return l
}
