package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// lease is a hold that was granted.
type lease struct {
	cl        *client
	req       driver.Request
	grant     driver.Grant
	sent      time.Time // when the last request that granted the hold was sent
	liveUntil time.Time // until then, the hold must be live
	goneAfter time.Time // after that, the hold must not be live
}

// noEnd is how long a hold lives in a store without leases. No case runs for so long.
const noEnd = 24 * time.Hour

func (c *check) leased(cl *client, r driver.Request, g driver.Grant, sent time.Time) *lease {
	l := &lease{cl: cl, req: r, grant: g}
	l.setEnd(c, g, sent)
	return l
}

// setEnd computes liveUntil and goneAfter from the grant g. sent is the time at which the request
// for g was sent.
func (l *lease) setEnd(c *check, g driver.Grant, sent time.Time) {
	now := time.Now()
	l.sent = sent
	if !c.g.Lease && g.TTL == 0 {
		l.liveUntil, l.goneAfter = now.Add(noEnd), now.Add(noEnd)
		return
	}
	from := sent
	if g.From != 0 {
		from = now.Add(g.From.Sub(driver.SystemClock().Now()))
	}
	if s := from.Add(g.TTL); s.After(l.liveUntil) {
		l.liveUntil = s
	}
	l.goneAfter = now.Add(max(g.TTL, l.liveUntil.Sub(now))) // the store may have decided right before its reply
}

// checkFrom checks that the lease of a grant counts from a time that has passed.
func (c *check) checkFrom(g driver.Grant) {
	if g.From != 0 && g.From > driver.SystemClock().Now() {
		c.errorf("Grant.From lies in the future")
	}
}

// lostConnection reports whether the hold has ended because its connection did.
func (l *lease) lostConnection() bool { return l.grant.Bound != nil && l.grant.Bound.Err() != nil }

// A lease may end a little too early, because clocks are read in milliseconds, and the speed of two
// clocks differs a little. slack returns how much earlier a lease of length ttl may end.
func slack(ttl time.Duration) time.Duration { return 2*time.Millisecond + max(0, ttl)/100 }

// take takes a name. The store must grant it. If the call takes as long as the lease, the store may
// find that its own grant has ended already, and refuse it or report the loss.
func (c *check) take(cl *client, r driver.Request, when string) *lease {
	sent := time.Now()
	l, err := c.try(cl, r)
	if errors.Is(err, driver.ErrHeld) || isLoss(err) {
		c.failBefore(sent.Add(r.TTL), "Acquire %s: it must be granted, got: %v", when, err)
	}
	if err != nil {
		c.failf("Acquire %s: it must be granted, got: %v", when, err)
	}
	return l
}

func (c *check) try(cl *client, r driver.Request) (*lease, error) {
	sent := time.Now()
	g, err := cl.Acquire(c.ctx, r)
	if err != nil {
		return nil, err
	}
	return c.leased(cl, r, g, sent), nil
}

// tryAnew makes one try. The store may refuse it with ErrHeld but must not fail. On some
// stores a refused token is spent, so r gets a new one.
func (c *check) tryAnew(cl *client, r *driver.Request, when string) (*lease, error) {
	l, err := c.try(cl, *r)
	if err != nil && !errors.Is(err, driver.ErrHeld) {
		c.failf("Acquire %s: %v", when, err)
	}
	if err != nil {
		r.Token = driver.TokenOf(newToken())
	}
	return l, err
}

// readToo takes the name of l for a second reader. If the store refuses the second reader, readToo
// ends the running case without a failure, because the case shared/together reports the refusal.
func (c *check) readToo(cl *client, l *lease) *lease {
	return c.joins(cl, c.readRequest(l.req.Name))
}

// joins is like readToo, for the request r.
func (c *check) joins(cl *client, r driver.Request) *lease {
	n, err := c.try(cl, r)
	switch {
	case errors.Is(err, driver.ErrHeld):
		panic(stop{})
	case err != nil:
		c.failf("Acquire to read while there is a reader: %v", err)
	}
	return n
}

// takeSoon takes a name that is free. The store may need a moment to notice that the name is free.
// Therefore the request is repeated after ErrHeld. Any other error is a failure.
func (c *check) takeSoon(cl *client, r driver.Request, when string) *lease {
	return c.within(c.patience, cl, r, when)
}

func (c *check) within(limit time.Duration, cl *client, r driver.Request, when string) *lease {
	var l *lease
	var err error
	granted := c.poll(limit, func() bool { l, err = c.tryAnew(cl, &r, when); return err == nil })
	if !granted {
		c.failLate(limit, "Acquire %s: still refused after %v: %v", when, limit, err)
	}
	return l
}

// acquireAgain sends the request of l again. The store must grant it.
func (c *check) acquireAgain(l *lease, r driver.Request) driver.Grant {
	sent := time.Now()
	g, err := l.cl.Acquire(c.ctx, r)
	if err != nil {
		c.failBefore(l.liveUntil, "the same request again, while the hold is live: it must be granted, got: %v", err)
	}
	l.setEnd(c, g, sent)
	return g
}

// mustRefuse makes a try that the store must refuse. If holds of the name are the reason, inTheWay
// lists these holds.
func (c *check) mustRefuse(cl *client, r driver.Request, when string, inTheWay ...*lease) *driver.HeldError {
	g, err := cl.Acquire(c.ctx, r)
	var held *driver.HeldError
	if errors.As(err, &held) {
		return held
	}
	if errors.Is(err, driver.ErrHeld) {
		return &driver.HeldError{Waiters: -1} // the case answers/errors reports this
	}
	until := time.Now().Add(noEnd)
	for _, l := range inTheWay {
		until = earlier(until, l.liveUntil)
	}
	if err == nil {
		c.failBefore(until, "%v", safety.ErrTwoHold("Acquire %s: want a *HeldError, got a grant with fence %d", when, g.Fence))
	}
	c.failBefore(until, "Acquire %s: want a *HeldError, got: %v", when, err)
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// takeOver repeats the request until the store grants the name. The store must grant it, but not
// before t.
func (c *check) takeOver(cl *client, r driver.Request, t time.Time, when string) *lease {
	return c.takeOverLate(cl, r, t, 0, when)
}

// takeOverLate is like takeOver, but the name may become free up to maxDelay later than t.
func (c *check) takeOverLate(cl *client, r driver.Request, t time.Time, maxDelay time.Duration, when string) *lease {
	early := t.Add(-slack(time.Until(t)))
	var l *lease
	maxDelay += c.patience
	granted := c.pollUntil(t, max(0, time.Until(t))+maxDelay, func() bool {
		var err error
		l, err = c.tryAnew(cl, &r, when)
		return err == nil
	})
	if !granted {
		c.failLate(maxDelay, "Acquire %s: still refused %v after the name should have become free", when, maxDelay)
	}
	if now := time.Now(); now.Before(early) {
		c.failf("%v", safety.ErrTooEarly("Acquire %s: granted %v before its time", when, t.Sub(now)))
	}
	return l
}

// extend extends l. The store must not refuse it.
func (c *check) extend(l *lease, ttl time.Duration) driver.Grant {
	sent := time.Now()
	g, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), ttl)
	if err != nil {
		c.failBefore(l.liveUntil, "Extend of a live hold by %v was refused: %v", ttl, err)
	}
	l.setEnd(c, g, sent)
	return g
}

// verify checks that l is live.
func (c *check) verify(l *lease, when string) driver.Grant {
	g, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
	if err != nil {
		c.failBefore(l.liveUntil, "Extend with ttl 0 %s: the hold must be live, got: %v", when, err)
	}
	return g
}

// extendGone tries to extend a hold that is not live. The store must refuse it.
func (c *check) extendGone(cl *client, name, token, when string) error {
	_, err := cl.Extend(c.ctx, name, token, c.long())
	if err == nil {
		c.failf("Extend %s: want ErrExpired or ErrLost, got: success", when)
	}
	if !isLoss(err) {
		c.failf("Extend %s: want ErrExpired or ErrLost, got: %v", when, err)
	}
	return err
}

// wantLost checks that err is ErrLost and not ErrExpired.
func (c *check) wantLost(err error, what string) {
	if !errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired) {
		c.failf("%s: want ErrLost, got: %v", what, orGranted(err))
	}
}

// errGranted is shown in place of an error that should have come.
var errGranted = errors.New("success")

func orGranted(err error) error { return cmp.Or(err, errGranted) }

// lapse waits until the lease has run out for certain: its latest end has passed by a unit, and the
// store says that the hold is gone. A store that never says so gets two units more, and the case
// goes on and finds the live hold. In a store with Guarantees.Observed, both processes first have
// to see the hold.
func (c *check) lapse(l *lease) {
	end := l.goneAfter
	if c.g.Observed {
		c.look(l)
		end = time.Now().Add(l.grant.TTL)
	}
	c.nap(time.Until(end.Add(c.unit)))
	c.poll(c.units(2), func() bool {
		_, err := l.cl.Extend(c.ctx, l.req.Name, l.req.Token.Text(), 0)
		return isLoss(err)
	})
}

// look makes both processes look at the name of l.
func (c *check) look(l *lease) {
	for _, cl := range []*client{c.a, c.b} {
		_, _ = cl.Extend(c.ctx, l.req.Name, newToken(), 0)
	}
}

// release releases the hold of l. The outcome must be one of want.
func (c *check) release(l *lease, keep time.Duration, when string, want ...driver.Outcome) {
	c.outcome(l.cl, l.req.Name, l.req.Token.Text(), keep, when, want...)
}

func (c *check) outcome(cl *client, name, token string, keep time.Duration, when string, want ...driver.Outcome) {
	got, err := cl.Release(c.ctx, name, token, keep)
	if err != nil {
		c.failf("Release %s: %v", when, err)
	}
	for _, w := range want {
		if got == w {
			return
		}
	}
	c.failf("Release %s: want %s, got %q", when, oneOf(want), got)
}

func oneOf(want []driver.Outcome) string {
	s := fmt.Sprintf("%q", want[0])
	for _, w := range want[1:] {
		s += fmt.Sprintf(" or, if the store cannot tell, %q", w)
	}
	return s
}

// releaseFreely releases a hold and accepts any outcome. The cases about Release check outcomes.
func (c *check) releaseFreely(l *lease) {
	if _, err := l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), 0); err != nil {
		c.failf("Release: %v", err)
	}
}

// cool releases a hold with a cool-down.
func (c *check) cool(l *lease, keep time.Duration) {
	if _, err := l.cl.Release(c.ctx, l.req.Name, l.req.Token.Text(), keep); err != nil {
		c.failf("Release with a cool-down: %v", err)
	}
}

// checkLease checks that the store granted the whole lease that was requested. It allows a
// difference for coarse clocks and for the time that the request took.
func (c *check) checkLease(g driver.Grant, ttl time.Duration, what string) {
	if c.g.Lease && g.TTL < ttl*9/10 {
		c.failf("%s grants %v; %v were asked for", what, g.TTL, ttl)
	}
}

func (c *check) invalid(err error, param, what string) {
	switch {
	case !errors.Is(err, driver.ErrInvalid):
		c.errorf("%s: want ErrInvalid, got: %v", what, orGranted(err))
	case !containsFold(err.Error(), param):
		c.errorf("%s: the error does not name the parameter %q: %v", what, param, err)
	}
}

// swap returns a request that takes over the hold of l.
func (c *check) swap(l *lease) driver.Request {
	r := c.request(l.req.Name)
	r.Shared, r.Replaces = l.req.Shared, l.req.Token
	return r
}

func (c *check) convert(l *lease, shared bool) (driver.Grant, error) {
	r := l.req
	r.Shared = shared
	return l.cl.Convert(c.ctx, r)
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// checkFenceAbove checks that the fence of l is greater than the previous one, and returns the
// fence of l.
func (c *check) checkFenceAbove(l *lease, last uint64) uint64 {
	if err := safety.FenceRises(l.grant.Fence, last); err != nil {
		c.failf("a new grant: %v", err)
	}
	return l.grant.Fence
}

func (c *check) inspect(name string) driver.State {
	s, err := c.b.Inspect(c.ctx, name)
	if err != nil {
		c.failf("Inspect: %v", err)
	}
	return s
}

// broken breaks all holds on name.
func (c *check) broken(name string) uint64 {
	f, err := c.b.Break(c.ctx, name, c.inspect(name).Fence)
	if err != nil {
		c.failf("Break with the fence that Inspect returned: %v", err)
	}
	return f
}
