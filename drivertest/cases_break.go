package drivertest

var breakCases = []testCase{
	{
		name:   "break/ends-holds",
		clause: "Break ends all holds and the cool-down of a name if its fence is still the one that was seen; then the name is free.",
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

// broken breaks all holds on name.
func (c *check) broken(name string) uint64 {
	f, err := c.b.Break(c.ctx, name, c.inspect(name).Fence)
	if err != nil {
		c.failf("Break with the fence that Inspect returned: %v", err)
	}
	return f
}
