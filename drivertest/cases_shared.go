package drivertest

var sharedCases = []testCase{
	{
		name:   "shared/beside",
		clause: "Shared holds are granted beside each other.",
		about:  "Request.Shared",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.name()), "to read a free name")
			same := c.take(c.a, c.readRequest(l.req.Name), "to read beside a reader of the same process")
			other := c.take(c.b, c.readRequest(l.req.Name), "to read beside a reader of another process")
			for _, x := range []*lease{l, same, other} {
				c.verify(x, "beside other readers")
			}
		},
	},
	{
		name:   "shared/keeps-writers-out",
		clause: "A shared hold excludes an exclusive one.",
		about:  "Request.Shared",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.name()), "to read a free name")
			c.refused(c.a, c.request(l.req.Name), "to write beside a reader of the same process", l)
			c.refused(c.b, c.request(l.req.Name), "to write beside a reader of another process", l)
			c.verify(l, "after a writer was refused")
		},
	},
	{
		name:   "shared/kept-out-by-writer",
		clause: "A shared request is granted beside other shared holds only: an exclusive hold excludes it.",
		about:  "Request.Shared",
		needs:  []need{readers},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.name()), "of a free name")
			c.refused(c.a, c.readRequest(l.req.Name), "to read beside a writer of the same process", l)
			c.refused(c.b, c.readRequest(l.req.Name), "to read beside a writer of another process", l)
			c.free(l)
			c.soon(c.b, c.readRequest(l.req.Name), "to read, after the writer's release")
		},
	},
	{
		name:   "shared/own-lease",
		clause: "Every reader has a lease of its own: one that ran out is not kept alive by another reader's.",
		about:  "Request.Shared Request.TTL",
		needs:  []need{readers, leases},
		f: func(c *check) {
			r := c.brief(c.name(), 1)
			r.Shared = true
			gone := c.take(c.a, r, "to read a free name")
			stays := c.beside(c.b, gone)
			c.lapse(gone)
			c.extend(stays, c.long())
			c.gone(c.a, r.Name, r.Token, "of a reader whose lease ran out beside another")
			c.free(stays)
			c.soon(c.b, c.request(r.Name), "to write, after the last live reader's release")
		},
	},
	{
		name:   "shared/longest-lease",
		clause: "A reader with a short lease does not shorten the others': the name is taken until the last lease has ended.",
		about:  "Request.Shared Request.TTL",
		needs:  []need{readers, leases},
		f: func(c *check) {
			long := c.take(c.a, c.readRequest(c.name()), "to read a free name")
			c.free(c.beside(c.a, long))
			r := c.brief(long.req.Name, 1)
			r.Shared = true
			short := c.take(c.b, r, "to read beside a reader")
			c.lapse(short)
			c.refused(c.b, c.request(r.Name), "to write beside a reader, after a shorter reader's lease ran out", long)
			c.verify(long, "after a shorter reader's lease ran out")
		},
	},
	{
		name:   "shared/unsupported",
		clause: "A store without shared mode answers errors.ErrUnsupported: never a silent exclusive grant.",
		about:  "Guarantees.Shared Request.Shared",
		needs:  []need{not(readers)},
		f: func(c *check) {
			r := c.readRequest(c.name())
			_, err := c.a.Acquire(c.ctx, r)
			c.wantUnsupported(err, "Acquire of a shared hold")
			c.take(c.b, c.request(r.Name), "after a shared request was refused")
		},
	},
}
