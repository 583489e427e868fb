package drivertest

import "github.com/padlock-go/padlock/driver"

var releaseCases = []testCase{
	{
		name:   "release/frees",
		clause: "Release of a live hold returns OutcomeReleased, and the name is free.",
		about:  "Store.Release OutcomeReleased",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.release(l, 0, "of a live hold", driver.OutcomeReleased)
			n := c.takeSoon(c.b, c.request(l.req.Name), "after Release")
			c.release(n, 0, "of a live hold", driver.OutcomeReleased)
		},
	},
	{
		name:   "release/repeat",
		clause: "Release is idempotent: a second Release of a hold returns OutcomeGone.",
		about:  "Store.Release OutcomeGone",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			c.release(l, 0, "for the second time", driver.OutcomeGone)
			c.outcome(c.a, c.newName(), newToken(), 0, "of a name that nobody ever held", driver.OutcomeGone)
		},
	},
	{
		name:   "release/repeat-after-another",
		clause: "A second Release of a hold returns OutcomeGone even if somebody else has the name by then, and does not touch that hold.",
		about:  "Store.Release OutcomeGone",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			n := c.takeSoon(c.b, c.request(l.req.Name), "after Release")
			c.release(l, 0, "for the second time, while another process has the name", driver.OutcomeGone)
			c.verify(n, "after the former holder's second Release")
		},
	},
	{
		name:   "release/foreign-token",
		clause: "Release ends the hold of its token and never anybody else's: a wrong token is an Outcome, not an error.",
		about:  "Store.Release OutcomeGone",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.outcome(c.b, l.req.Name, newToken(), 0, "with a token that never held anything", driver.OutcomeGone)
			c.verify(l, "after Release of another token")
			c.mustRefuse(c.b, c.request(l.req.Name), "after Release of a wrong token", l)
		},
	},
	{
		name:   "release/after-expiry",
		clause: "If the lease had run out and the name is free, Release returns OutcomeExpired, or OutcomeGone if the store cannot tell, and never OutcomeReleased.",
		about:  "Store.Release OutcomeExpired",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			c.lapse(l)
			c.release(l, 0, "after the lease had run out", driver.OutcomeExpired, driver.OutcomeGone)
			c.takeSoon(c.b, c.request(l.req.Name), "after a late Release")
		},
	},
	{
		name:   "release/after-taken",
		clause: "If the lease had run out and somebody took the name, Release does not touch that hold, and returns OutcomeTaken, or OutcomeGone if the store cannot tell.",
		about:  "Store.Release OutcomeTaken",
		needs:  []need{leases},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 1), "of a free name")
			n := c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "by another process, after the lease ran out")
			c.release(l, 0, "after the name was taken", driver.OutcomeTaken, driver.OutcomeGone)
			c.verify(n, "after a late Release by the former holder")
			c.mustRefuse(c.a, c.request(l.req.Name), "after a late Release by the former holder", n)
		},
	},
	{
		name:   "release/one-reader",
		clause: "The Release of one reader does not touch the others: a writer is let in after the last of them.",
		about:  "Store.Release",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			other := c.readToo(c.b, l)
			c.releaseFreely(other)
			c.verify(l, "after another reader's Release")
			c.mustRefuse(c.a, c.request(l.req.Name), "while one reader of the same process is left", l)
			c.mustRefuse(c.b, c.request(l.req.Name), "while one reader is left", l)
			c.releaseFreely(l)
			c.takeSoon(c.b, c.request(l.req.Name), "after the last reader's Release")
		},
	},
}
