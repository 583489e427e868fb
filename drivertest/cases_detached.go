package drivertest

import (
	"errors"
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
		clause: "A detached hold has a lease, outlives the store that took it, and can be extended, replaced and released by every store that knows its token.",
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
		},
	},
	{
		name:   "detached/shared",
		clause: "A store that has detached and shared holds refuses a hold that is both with errors.ErrUnsupported, or shares the name among detached readers and those that are bound, keeps writers out until the last of them has ended, and ends a detached one with its lease.",
		needs:  []need{detaches, readers},
		f:      detachedReaders,
	},
}

func detachedReaders(c *check) {
	r := c.detached()
	r.Shared = true
	l, err := c.try(c.a, r)
	if errors.Is(err, errors.ErrUnsupported) {
		c.take(c.b, c.request(r.Name), "after a shared one with Detached was refused")
		return
	}
	if err != nil {
		c.failf("a shared Acquire with Detached: %v", err)
	}
	if l.grant.TTL <= 0 {
		c.failf("a detached reader has the TTL %v", l.grant.TTL)
	}
	read := c.readRequest(r.Name)
	bound := c.take(c.b, read, "to read while there is a detached reader")
	read = c.readRequest(r.Name)
	read.Detached = true
	second := c.take(c.b, read, "to read with Detached while there are readers")
	if c.g.SharedFence == driver.PromiseYes && (second.grant.Fence != l.grant.Fence || bound.grant.Fence != l.grant.Fence) {
		c.errorf("readers that join a detached one have the fences %d and %d, it has %d", bound.grant.Fence, second.grant.Fence, l.grant.Fence)
	}
	c.mustRefuse(c.b, c.request(r.Name), "while there are readers", l, bound, second)
	c.releaseFreely(bound)
	c.mustRefuse(c.b, c.request(r.Name), "while there are detached readers", l, second)
	second.cl = c.a // another store, which knows the token
	c.verify(second, "by another store")
	if g, err := c.a.Extend(c.ctx, r.Name, read.Token.Text(), c.long()); err != nil || g.TTL <= 0 {
		c.failf("Extend of a detached reader by another store: %+v, %v", g, err)
	}
	c.release(second, 0, "of a detached reader", driver.OutcomeReleased)
	c.release(second, 0, "of a detached reader, again", driver.OutcomeGone)
	c.verify(l, "after another reader was released")
	writer := c.request(r.Name)
	c.mustRefuse(c.b, writer, "while there is a detached reader", l)
	c.release(l, 0, "of the last reader", driver.OutcomeReleased)
	first := c.takeSoon(c.b, writer, "after the last reader was released")
	c.releaseFreely(first)
	short := c.brief(r.Name, 1)
	short.Shared, short.Detached = true, true
	l = c.take(c.a, short, "to read with Detached for a short time")
	c.takeOver(c.b, c.request(r.Name), l.liveUntil, "after the lease of a detached reader ran out")
	c.extendGone(c.a, r.Name, short.Token.Text(), "of a detached reader after its lease")
}

// detached returns a request for a detached hold.
func (c *check) detached() driver.Request {
	r := c.request(c.newName())
	r.Detached = true
	return r
}
