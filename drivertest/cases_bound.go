package drivertest

import "github.com/padlock-go/padlock/driver"

var boundCases = []testCase{
	{
		name:   "bound/shared",
		clause: "All holds of one connection or session share Grant.Bound: the release of one hold ends neither Bound nor the other holds.",
		needs:  []need{connected},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			other := c.take(c.a, c.request(c.newName()), "of another free name")
			c.releaseFreely(other)
			if l.grant.Bound.Err() != nil {
				c.failf("Grant.Bound of a live hold has ended after another's release")
			}
			c.verify(l, "after another hold's release")
			c.mustRefuse(c.b, c.request(l.req.Name), "after the holder released another name", l)
		},
	},
	{
		name:   "bound/close-keeps",
		clause: "Holds that are bound to nothing stay after Close, until their leases end.",
		needs:  []need{not(bound), leases},
		f: func(c *check) {
			cl := c.openAnother()
			l := c.take(cl, c.brief(c.newName(), 4), "of a free name")
			c.closed(cl)
			c.mustRefuse(c.b, c.request(l.req.Name), "of a held name, after the holder's store was closed", l)
			c.takeOver(c.b, c.request(l.req.Name), l.liveUntil, "after the holder's store was closed")
		},
	},
	{
		name:   "bound/close-ends",
		clause: "Holds that are bound to a connection end with Close, and so does Grant.Bound, with a cause.",
		needs:  []need{bound},
		f: func(c *check) {
			cl := c.openAnother()
			l := c.take(cl, c.request(c.newName()), "of a free name")
			c.closed(cl)
			if c.g.Bound == driver.BoundToConnection {
				c.boundEnds(l, "Close")
			}
			c.takeSoon(c.b, c.request(l.req.Name), "after the holder's store was closed")
		},
	},
	{
		name:   "file/keeps",
		clause: "While any copy of the file that carries a hold is open, the name stays held, even after Release, which then returns Inherited. The name is free when the last copy is closed.",
		needs:  []need{files},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			f, err := c.a.File(l.req.Name, l.req.Token.Text())
			if err != nil {
				c.failf("File of a live hold: %v", err)
			}
			defer f.Close()
			c.release(l, 0, "while a copy of its file is open", driver.OutcomeInherited)
			c.mustRefuse(c.b, c.request(l.req.Name), "of a name whose file is still open", l)
			if err := f.Close(); err != nil {
				c.failf("close of the copy: %v", err)
			}
			c.takeSoon(c.b, c.request(l.req.Name), "after the last copy of the file was closed")
		},
	},
}

func (c *check) closed(cl *client) {
	if err := cl.store.Close(); err != nil {
		c.failf("Close: %v", err)
	}
}
