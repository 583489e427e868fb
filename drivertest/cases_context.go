package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var contextCases = []testCase{
	{
		name:   "context/ended-before",
		clause: "A request whose context has already ended returns the context's error and changes nothing. Only Release may end the hold all the same and report that; if it returns the context's error, another Release ends the hold.",
		f: func(c *check) {
			r := c.request(c.newName())
			if _, err := c.a.Acquire(canceled(), r); !errors.Is(err, context.Canceled) {
				c.failf("Acquire with a cancelled context: want context.Canceled, got: %v", orGranted(err))
			}
			l := c.take(c.b, c.request(r.Name), "after an Acquire whose context had ended")
			if _, err := c.b.Extend(canceled(), r.Name, l.req.Token.Text(), c.long()); !errors.Is(err, context.Canceled) {
				c.failf("Extend with a cancelled context: want context.Canceled, got: %v", orGranted(err))
			}
			c.verify(l, "after Extend with a cancelled context")
			o, err := c.b.Release(canceled(), l.req.Name, l.req.Token.Text(), 0)
			switch {
			case err == nil && o != driver.OutcomeReleased:
				c.failf("Release of a live hold with a cancelled context returns %q", o)
			case err != nil && !errors.Is(err, context.Canceled):
				c.failf("Release with a cancelled context: want context.Canceled, got: %v", err)
			case err != nil && !errors.Is(err, driver.ErrUncertain):
				c.releaseFreely(l)
			case err != nil:
				c.release(l, 0, "for the second time", driver.OutcomeReleased, driver.OutcomeGone)
			}
			c.takeSoon(c.b, c.request(l.req.Name), "after Release with a cancelled context")
		},
	},
	{
		name:   "context/cancelled-acquires",
		clause: "If ctx ends during Acquire, errors.Is finds its error, joined with ErrUncertain if the request may have been sent; without ErrUncertain nothing was changed. Release of the token, or the end of the lease, leaves nothing behind.",
		f:      cancelledAcquires,
	},
}

// cancelledAcquires makes a hundred calls of Acquire and cancels each of them. The first contexts
// end almost at once, and the last ones when Acquire has probably returned.
func cancelledAcquires(c *check) {
	began := time.Now()
	c.releaseFreely(c.take(c.a, c.request(c.newName()), "of a free name"))
	trip := time.Since(began) / 2
	n := 100
	if c.h.Slow {
		n = 30
	}
	for i := range n {
		r := c.brief(c.newName(), 2)
		sent := time.Now()
		g, err := c.acquireFor(r, trip*time.Duration(i)*3/time.Duration(2*n))
		switch {
		case err == nil:
			c.endsLater(i, c.leased(c.a, r, g, sent))
		case !errors.Is(err, context.DeadlineExceeded):
			// A request that took longer than its lease may find that the lease is over.
			c.failBefore(sent.Add(r.TTL), "Acquire whose context ended: want context.DeadlineExceeded, got: %v", err)
		case !errors.Is(err, driver.ErrUncertain):
			c.releaseFreely(c.take(c.b, c.request(r.Name), "after a cancelled Acquire that was not uncertain"))
		default:
			c.endsLater(i, c.leased(c.a, r, driver.Grant{TTL: r.TTL}, sent))
		}
	}
}

func (c *check) acquireFor(r driver.Request, d time.Duration) (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	return c.a.Acquire(ctx, r)
}

// endsLater is called after a cancelled Acquire that may have made a hold. It checks that Release
// ends this hold. For a few of the calls it checks instead that the hold ends by itself. It does so
// rarely, because it then waits for a whole lease.
func (c *check) endsLater(i int, l *lease) {
	if c.g.Lease && i%25 == 0 {
		c.lapse(l)
	} else if _, err := c.a.Release(c.ctx, l.req.Name, l.req.Token.Text(), 0); err != nil {
		c.failf("Release after a cancelled Acquire: %v", err)
	}
	c.releaseFreely(c.takeSoon(c.b, c.request(l.req.Name), "after a cancelled Acquire was released or its lease ran out"))
}
