package drivertest

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// tokenCases are about a token that Acquire has refused.
var tokenCases = []testCase{
	{
		name:   "acquire/refused-again",
		clause: "A token that Acquire refused has nothing, and a later Acquire of the same name with it is a new try: refused while others hold the name, and granted when the name is free. Any process may repeat.",
		needs:  []need{repeatsRefused},
		f:      refusedAgain,
	},
	{
		name:   "lost-reply/refused",
		clause: "If the reply to a refusal was lost, the token has nothing. The same request is refused again while others hold the name. When it is granted, that hold is the only one, and nothing that remains of the first request ends it or brings it back.",
		needs:  []need{loseReply, repeatsRefused},
		alone:  true,
		f:      refusalLost,
	},
}

func refusedAgain(c *check) {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	r := c.request(l.req.Name)
	for _, cl := range []*client{c.b, c.a, c.b} {
		c.mustRefuse(cl, r, "of a held name, by one token again and again", l)
	}
	c.verify(l, "after another token was refused")
	c.releaseFreely(l)
	n := c.repeatRefused(c.b, r, "after the release")
	c.wantFenceAbove(n, l)
	c.verify(n, "that a refused token has got")
	if c.g.Bound == driver.BoundToNothing {
		if g, err := c.a.Acquire(c.ctx, r); err != nil || g.Fence != n.grant.Fence {
			c.failBefore(n.liveUntil, "the same request by another process: want the fence %d, got: %d, %v", n.grant.Fence, g.Fence, orGranted(err))
		}
	}
	c.mustRefuse(c.a, c.request(r.Name), "of a name that a refused token has got", n)
	c.releaseFreely(n)
	c.takeSoon(c.a, c.request(r.Name), "after one Release of a token that was refused before")
}

func refusalLost(c *check) {
	cl := c.openAnother()
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	r := c.request(l.req.Name)
	err := c.withLostReply(cl, func(ctx context.Context) error { _, err := cl.Acquire(ctx, r); return err })
	if err == nil {
		c.failBefore(l.liveUntil, "Acquire of a held name, whose reply was lost: it was granted")
	}
	c.mustNotBe(err, "Acquire of a held name, whose reply was lost", driver.ErrLost, driver.ErrExpired)
	c.refusedAfterLoss(cl, r, l)
	c.verify(l, "after the reply to another's refusal was lost")
	c.releaseFreely(l)
	c.hasNothing(cl, r, "after the release, when the reply to its refusal was lost")
	other := c.takeSoon(c.b, c.request(r.Name), "after the release, when the reply to another's refusal was lost")
	c.refusedAfterLoss(cl, r, other)
	c.releaseFreely(other)
	n := c.repeatRefused(cl, r, "after the release, when the reply to an earlier refusal was lost")
	c.wantFenceAbove(n, other)
	// A clean-up of the store's own, for the request whose reply was lost, may come late.
	c.nap(driver.MaxReservation)
	c.verify(n, "some time after the grant")
	c.mustRefuse(c.b, c.request(r.Name), "of a name that a refused token has got", n)
	c.releaseFreely(n)
	c.hasNothing(cl, r, "after its release")
	c.takeSoon(c.b, c.request(r.Name), "after one Release of a token that was refused before")
}

// repeatRefused repeats the request of a token that was refused, with the same token, until the
// store grants it. The name is free, but the store may need a moment to notice that.
func (c *check) repeatRefused(cl *client, r driver.Request, when string) *lease {
	var l *lease
	var err error
	granted := c.poll(c.patience, func() bool {
		l, err = c.try(cl, r)
		return err == nil || isLoss(err) || errors.Is(err, driver.ErrSpent)
	})
	switch {
	case granted && err == nil:
		return l
	case granted || !c.k.alone && !errors.Is(err, driver.ErrHeld):
		c.failf("Acquire %s, with the token that was refused: it must be granted, got: %v", when, err)
	}
	c.failLate(c.patience, "Acquire %s, with the token that was refused: not granted within %v: %v", when, c.patience, err)
	return nil
}

// refusedAfterLoss repeats a request until the store replies. The store must refuse it because of
// inTheWay.
func (c *check) refusedAfterLoss(cl *client, r driver.Request, inTheWay *lease) {
	err := c.answered(func() error {
		_, err := cl.Acquire(c.ctx, r)
		return err
	})
	if !errors.Is(err, driver.ErrHeld) {
		c.failBefore(inTheWay.liveUntil, "the same request, repeated after the reply to a refusal was lost: want a *HeldError, got: %v", orGranted(err))
	}
}

// hasNothing checks that the token of r has no hold. It repeats the request until the store
// replies.
func (c *check) hasNothing(cl *client, r driver.Request, when string) {
	err := c.answered(func() error {
		_, err := cl.Extend(c.ctx, r.Name, r.Token.Text(), c.long())
		return err
	})
	if !isLoss(err) {
		c.failf("Extend of a token that was refused, %s: want ErrExpired or ErrLost, got: %v", when, orGranted(err))
	}
}

// wantFenceAbove checks that the fence of l is greater than that of an earlier hold.
func (c *check) wantFenceAbove(l, earlier *lease) {
	if err := safety.FenceRises(l.grant.Fence, earlier.grant.Fence); err != nil && c.g.Fence != driver.FenceNone {
		c.errorf("the hold after an earlier one: %v", err)
	}
}
