package drivertest

var replacesCases = []testCase{
	{
		name:   "replaces/mode",
		clause: "A hand-over by Replaces keeps the mode of the hold: a shared hold stays shared.",
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
}
