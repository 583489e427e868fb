package drivertest

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

var togetherCases = []testCase{
	{
		name:   "together/each",
		clause: "AcquireShared grants each request a hold of its own, as Acquire does. For a token that has its hold already, the request is a repeat.",
		about:  "SharedTaker.AcquireShared",
		needs:  []need{together, readers},
		f: func(c *check) {
			first := c.take(c.a, c.sharedRequest(c.newName()), "of a free name")
			rs := []driver.Request{first.req}
			for range 3 {
				rs = append(rs, c.sharedRequest(first.req.Name))
			}
			sent := c.clockTime()
			grants := c.takeTogether(rs, len(rs), "next to a reader")
			for i, g := range grants {
				l := c.leased(c.a, rs[i], g, sent)
				c.checkLease(g, rs[i].TTL, "AcquireShared")
				c.verify(l, "that AcquireShared granted")
				if c.g.SharedFence == driver.Yes && g.Fence != first.grant.Fence {
					c.failf("AcquireShared grants fence %d next to a reader with fence %d", g.Fence, first.grant.Fence)
				}
				if i > 0 {
					c.releaseFreely(l)
				}
			}
			c.mustRefuse(c.b, c.request(first.req.Name), "next to the reader that is left", first)
			c.releaseFreely(first)
		},
	},
	{
		name:   "together/stops",
		clause: "AcquireShared grants nothing next to a writer, and the tokens are not spent.",
		about:  "SharedTaker.AcquireShared",
		needs:  []need{together, readers},
		f: func(c *check) {
			writer := c.take(c.b, c.request(c.newName()), "of a free name")
			rs := []driver.Request{c.sharedRequest(writer.req.Name), c.sharedRequest(writer.req.Name)}
			c.takeTogether(rs, 0, "next to a writer")
			c.verify(writer, "after AcquireShared")
			c.releaseFreely(writer)
			c.takeTogether(rs, 2, "with the same tokens, after the writer's release")
			for _, r := range rs {
				c.outcome(c.a, r.Name, r.Token, 0, "of a reader", driver.Released)
			}
		},
	},
	{
		name:   "together/invalid",
		clause: "AcquireShared returns ErrInvalid for requests that are exclusive, for several names, or not alike.",
		about:  "SharedTaker.AcquireShared ErrInvalid",
		needs:  []need{together, readers},
		f: func(c *check) {
			name := c.newName()
			longer, other, swap := c.sharedRequest(name), c.sharedRequest(name+"2"), c.sharedRequest(name)
			longer.TTL *= 2
			swap.Replaces = newToken()
			for _, bad := range []driver.Request{c.request(name), longer, other, swap} {
				rs := []driver.Request{c.sharedRequest(name), bad}
				if grants, err := c.a.AcquireShared(c.ctx, rs); !errors.Is(err, driver.ErrInvalid) {
					c.errorf("AcquireShared with %+v: want ErrInvalid, got: %d grants, %v", bad, len(grants), err)
				}
			}
			c.releaseFreely(c.take(c.b, c.request(name), "after requests that were invalid"))
		},
	},
}

func (c *check) sharedRequest(name string) driver.Request {
	r := c.request(name)
	r.Shared = true
	return r
}

// takeTogether requests the shared holds rs. The store must grant exactly the first n.
func (c *check) takeTogether(rs []driver.Request, n int, when string) []driver.Grant {
	grants, err := c.a.AcquireShared(c.ctx, rs)
	if err != nil || len(grants) != n {
		c.failf("AcquireShared of %d readers %s: %d grants, %v; want %d", len(rs), when, len(grants), err, n)
	}
	return grants
}

func (cl *client) AcquireShared(ctx context.Context, rs []driver.Request) (grants []driver.Grant, err error) {
	defer cl.begin("AcquireShared", &err)()
	grants, err = ability[driver.SharedTaker](cl.store).AcquireShared(ctx, rs)
	for i, g := range grants {
		cl.forget(rs[i].Name, rs[i].Token)
		cl.saw(&call{"AcquireShared", []string{rs[i].Token}, g, true, nil})
	}
	return grants, err
}
