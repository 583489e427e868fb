package drivertest

import "github.com/padlock-go/padlock/driver"

var releaseCases = []testCase{
	{
		name:   "release/frees",
		clause: "Release of a live hold returns OutcomeReleased, and the name is free.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.release(l, 0, "of a live hold", driver.OutcomeReleased)
			n := c.takeSoon(c.b, c.request(l.req.Name), "after Release")
			c.release(n, 0, "of a live hold", driver.OutcomeReleased)
		},
	},
}
