package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

const (
	holdIsNone       bug = "Wait hands over a reservation and says that it is the hold"
	passAboveIgnored bug = "Pass does not look at FenceAbove"
	passAnyToken     bug = "Pass takes tokens of any length"
	passAndKeeps     bug = "Pass leaves the old token in"
	passForAnybody   bug = "Pass grants a free name, whatever the token held"
	passKeepsFence   bug = "Pass keeps the fence"
	passNever        bug = "Pass never grants"
	passOvertakes    bug = "Pass does not look at the queue"
	passRefusesAgain bug = "Pass, repeated, says that nothing was released"
	passUnchecked    bug = "Pass does not check its request"
)

var passBugs = []bug{
	holdIsNone, passAboveIgnored, passAnyToken, passAndKeeps, passForAnybody, passKeepsFence, passNever, passOvertakes, passRefusesAgain, passUnchecked,
}

// relay is a store that passes names on.
type relay struct{ *ref }

func (w *world) openRelay(ctx context.Context) (driver.Store, error) {
	s, err := w.open(ctx)
	return relay{s.(*ref)}, err
}

// Wait implements driver.Waiter. It hands over holds that need no claim.
func (s relay) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	g, err := s.ref.Wait(ctx, r, reserve)
	if err != nil || !handed(g) || s.w.bug != "" && !s.is(holdIsNone) {
		return g, err
	}
	from := driver.SystemClock().Now()
	if s.is(holdIsNone) {
		g.TTL = r.TTL
	} else if g, err = s.Acquire(ctx, r); errors.Is(err, driver.ErrHeld) {
		return driver.Grant{}, nil // the reservation has lapsed
	} else if err != nil {
		return driver.Grant{}, err
	}
	g.From = from
	return g, nil
}

// Pass implements fast.Passer.
func (s relay) Pass(ctx context.Context, token string, next driver.Request) (o driver.Outcome, g driver.Grant, err error) {
	if err := s.validate(&next); err != nil {
		return o, g, err
	}
	if (next.Shared || next.Replaces.Text() != "" || next.Token.Text() == token) && !s.is(passUnchecked) {
		return o, g, fmt.Errorf("%w: request: it cannot follow", driver.ErrInvalid)
	}
	if err := s.check(next.Name, token, "", 0); err != nil && !s.is(passAnyToken) {
		return o, g, err
	}
	err = s.ask(ctx, func() error {
		e := s.w.entry(next.Name)
		o, g, err = s.pass(e, token, &next)
		e.signal()
		return err
	})
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, s.blab(err, token)
	}
	return o, g, nil
}

func (s relay) pass(e *entry, token string, next *driver.Request) (driver.Outcome, driver.Grant, error) {
	w := s.w
	if h := w.live(e, next.Token.Text()); h != nil && !s.is(passRefusesAgain) {
		g, err := s.repeat(e, h, next)
		return driver.OutcomeReleased, g, err
	}
	h := w.live(e, token)
	o, kept := driver.OutcomeReleased, h != nil && s.is(passAndKeeps)
	if !kept {
		o = s.release(e, token, 0)
	}
	waits := len(e.queue) > 0 && !s.is(passOvertakes)
	if h == nil && !s.is(passForAnybody) || waits || s.is(passNever) || !kept && !w.free(e, next) {
		return o, driver.Grant{}, nil
	}
	if s.is(passAboveIgnored) {
		next.FenceAbove = 0
	}
	before := e.fence
	n := s.add(e, next, next.TTL)
	if s.is(passKeepsFence) {
		n.fence, e.fence = before, before
	}
	return o, s.grant(n), nil
}
