package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	passThroughRest  bug = "Pass ends AtLeast"
	passUnchecked    bug = "Pass does not check its request"
	placeForEver     bug = "a place whose caller never calls Wait stays the first"
	placeForgotten   bug = "Wait does not know the place that Pass took"
	placeKept        bug = "Release leaves the place that Pass took"
	queuesAlways     bug = "Pass queues next although nobody waits"
	queuesFirst      bug = "Pass gives next the first place"
	queuesForNothing bug = "Pass queues next although token held nothing"
	queuesTwice      bug = "Pass, repeated, takes a second place"
	queuesNotAgain   bug = "Pass, repeated, gives the place up"
)

var passBugs = []bug{
	holdIsNone, passAboveIgnored, passAnyToken, passAndKeeps, passForAnybody, passKeepsFence, passNever, passOvertakes, passRefusesAgain, passThroughRest, passUnchecked,
	placeForEver, placeForgotten, placeKept, queuesAlways, queuesFirst, queuesForNothing, queuesTwice, queuesNotAgain,
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

// Pass implements driver.Passer.
func (s relay) Pass(ctx context.Context, token string, next driver.Request) (o driver.Outcome, g driver.Grant, queued bool, err error) {
	if err := s.validate(&next); err != nil {
		return o, g, false, err
	}
	if (next.Shared || next.Replaces != "" || next.Token == token) && !s.is(passUnchecked) {
		return o, g, false, fmt.Errorf("%w: request: it cannot follow", driver.ErrInvalid)
	}
	if err := s.check(next.Name, token, "", 0); err != nil && !s.is(passAnyToken) {
		return o, g, false, err
	}
	err = s.ask(ctx, func() error {
		e := s.w.entry(next.Name)
		waited := len(e.queue) > 0
		if e.isAbsent(next.Token) {
			o, queued = s.queueAgain(e, &next)
			return nil
		}
		if s.is(queuesAlways) {
			o, waited = s.release(e, token, 0), true
		} else {
			o, g, err = s.pass(e, token, &next)
		}
		queued = err == nil && waited && !handed(g) && (o == driver.OutcomeReleased || s.is(queuesForNothing))
		if queued {
			s.queue(e, &next)
		}
		e.signal()
		return err
	})
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, false, s.blab(err, token)
	}
	return o, g, queued, nil
}

// queue gives the request the last place in the queue.
func (s relay) queue(e *entry, next *driver.Request) {
	at := len(e.queue)
	if s.is(queuesFirst) {
		at = 0
	}
	e.queue = slices.Insert(e.queue, at, &waiting{token: next.Token, absent: next})
}

// queueAgain is called when Pass is repeated. The request has a place already.
func (s relay) queueAgain(e *entry, next *driver.Request) (driver.Outcome, bool) {
	switch {
	case s.is(queuesNotAgain):
		e.leave(next.Token)
		return driver.OutcomeGone, false
	case s.is(queuesTwice):
		s.queue(e, next)
	}
	return driver.OutcomeReleased, true
}

// reserveForAbsent reserves the name for the first place in the queue if it is that caller's turn
// and the caller has not called Wait yet.
func (s *ref) reserveForAbsent(e *entry) {
	if len(e.queue) == 0 || e.queue[0].absent == nil || s.is(placeForEver) {
		return
	}
	if next := e.queue[0].absent; s.w.free(e, next) {
		s.handOver(e, next, true)
	}
}

// isAbsent reports whether Pass took a place for the token and Wait has not been called.
func (e *entry) isAbsent(token string) bool {
	return slices.ContainsFunc(e.queue, func(p *waiting) bool { return p.token == token && p.absent != nil })
}

func (s relay) pass(e *entry, token string, next *driver.Request) (driver.Outcome, driver.Grant, error) {
	w := s.w
	if h := w.live(e, next.Token); h != nil && !s.is(passRefusesAgain) {
		g, err := s.repeat(e, h, next)
		return driver.OutcomeReleased, g, err
	}
	h := w.live(e, token)
	if s.is(passThroughRest) && h != nil {
		h.atLeast = time.Time{}
	}
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
	n := s.add(e, next, max(next.TTL, next.AtLeast))
	if s.is(passKeepsFence) {
		n.fence, e.fence = before, before
	}
	return o, s.grant(n), nil
}
