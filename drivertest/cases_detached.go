package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var detachedCases = []testCase{
	{
		name:   "detached/ignored",
		clause: "A store whose holds are bound to nothing ignores Detached.",
		needs:  []need{not(bound)},
		f: func(c *check) {
			l := c.take(c.a, c.detached(), "with Detached")
			c.verify(l, "that was asked for with Detached")
			c.releaseFreely(l)
		},
	},
	{
		name:   "detached/outlives",
		clause: "A detached hold has a lease, outlives the store that took it, and can be extended, replaced and released by every store that knows its token. It is never shared.",
		needs:  []need{detaches},
		f: func(c *check) {
			gone := c.openAnother()
			r := c.detached()
			l := c.take(gone, r, "with Detached")
			if l.grant.TTL <= 0 {
				c.failf("a detached hold has the TTL %v", l.grant.TTL)
			}
			if err := gone.store.Close(); err != nil {
				c.errorf("Close: %v", err)
			}
			for _, ttl := range []time.Duration{r.TTL, 0} {
				if g, err := c.b.Extend(c.ctx, r.Name, r.Token.Text(), ttl); err != nil || g.TTL <= 0 {
					c.failf("after the Close of the store that took it, another store's Extend of a detached hold by %v returns %+v, %v", ttl, g, err)
				}
			}
			c.mustRefuse(c.a, c.request(r.Name), "while a detached hold is live", l)
			next := c.swap(l)
			next.Detached = true
			if g, err := c.a.Acquire(c.ctx, next); err != nil || g.TTL <= 0 {
				c.failf("a detached hold is to be replaced: %+v, %v", g, err)
			}
			if o, err := c.b.Release(c.ctx, r.Name, next.Token.Text(), 0); o != driver.OutcomeReleased || err != nil {
				c.failf("another store's Release of a detached hold returns %v, %v", o, err)
			}
			if r = c.detached(); c.g.Shared {
				r.Shared = true
				_, err := c.a.Acquire(c.ctx, r)
				c.wantUnsupported(err, "a shared Acquire with Detached")
			}
		},
	},
}

// detached returns a request for a detached hold.
func (c *check) detached() driver.Request {
	r := c.request(c.newName())
	r.Detached = true
	return r
}
