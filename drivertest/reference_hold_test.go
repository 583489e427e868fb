package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Extend implements driver.Store.
func (s *ref) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	if err := s.check(name, token, "TTL", ttl); err != nil {
		return g, err
	}
	if s.is(closedAnswers) {
		s = &ref{w: s.w, bound: s.bound} // a store that was never closed
	}
	err = s.ask(ctx, func() error { g, err = s.extend(s.w.entry(name), token, ttl); return err })
	if err != nil {
		return driver.Grant{}, s.blab(err, token)
	}
	switch s.w.bug {
	case leaseUntold:
		g.TTL = 0
	case leaseRoundedToNone:
		g.TTL = g.TTL.Truncate(10 * time.Millisecond)
	}
	return g, nil
}

func (s *ref) extend(e *entry, token string, ttl time.Duration) (driver.Grant, error) {
	w := s.w
	if w.full && s.is(fullExtendsNothing) {
		return driver.Grant{}, driver.ErrUnavailable
	}
	h, err := w.find(e, token)
	if err != nil && ttl > 0 {
		h, err = w.revive(e, token)
	}
	if err != nil && len(e.holds) > 0 && ttl > 0 && s.is(refusedExtendShortens) {
		e.holds[0].until = w.now().Add(ttl)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	if ttl == 0 && s.is(verifyRenews) && w.g.Lease {
		h.until = later(h.until, w.now().Add(300*time.Millisecond))
	}
	if ttl == 0 || !w.g.Lease {
		return s.grant(h), nil
	}
	end := w.now().Add(ttl)
	switch {
	case s.is(extendShortens):
		h.until = end
	case s.is(extendDoesNothing):
	case s.is(extendKeepsOthers):
		h.until = later(h.until, end)
		for name, other := range w.names {
			if other != e && name[:strings.LastIndex(name, ".")] == e.name[:strings.LastIndex(e.name, ".")] { // of the same case
				for _, o := range other.holds {
					o.until = later(o.until, end)
				}
			}
		}
	case s.is(extendMovesSince):
		h.since, h.until = w.now(), later(h.until, end)
	default:
		h.until = later(h.until, end)
	}
	return s.grant(h), nil
}

// find returns the live hold of token, or an error that says why there is none.
func (w *world) find(e *entry, token string) (*hold, error) {
	if h := w.live(e, token); h != nil && !h.reserved {
		return h, nil
	}
	for _, h := range e.holds {
		if h.token == token {
			return nil, driver.ErrExpired
		}
	}
	return nil, driver.ErrLost
}

// revive restores a hold whose lease has run out, if that is the bug.
func (w *world) revive(e *entry, token string) (*hold, error) {
	for _, h := range e.holds {
		switch {
		case h.token == token && w.bug == extendRevives:
			h.until = w.now().Add(time.Minute)
			return h, nil
		case h.token == token || w.bug == expiredForLost:
			return nil, driver.ErrExpired
		}
	}
	switch {
	case w.bug == expiredForLost && e.past[token] == driver.OutcomeTaken:
		return nil, driver.ErrExpired
	case w.bug == extendAfterRelease && e.past[token] == driver.OutcomeReleased && len(e.holds) == 0:
		e.holds = []*hold{{token: token, fence: e.fence, since: w.now(), until: w.now().Add(time.Minute)}}
		return e.holds[0], nil
	case w.bug == extendAnybody && len(e.holds) == 1 && w.lives(e.holds[0]) && e.past[token] == 0:
		return e.holds[0], nil
	case w.bug == extendTakesFree && len(e.holds) == 0 && len(e.past) == 0:
		e.holds = []*hold{{token: token, fence: e.fence, since: w.now(), until: w.now().Add(time.Hour)}}
		return e.holds[0], nil
	case w.bug == extendTheTaker && len(e.holds) == 1 && e.past[token] == driver.OutcomeTaken:
		return e.holds[0], nil
	}
	return nil, driver.ErrLost
}

// Release implements driver.Store.
func (s *ref) Release(ctx context.Context, name, token string, keep time.Duration) (o driver.Outcome, err error) {
	if s.is(coolDownPretended) {
		keep = 0
	}
	if s.is(cancelledReleaseLies) && ctx.Err() != nil {
		return driver.OutcomeGone, nil
	}
	if keep != 0 && !s.w.g.CoolDown {
		return o, fmt.Errorf("keep: %w", errors.ErrUnsupported)
	}
	if err := s.check(name, token, "keep", keep); err != nil {
		return o, err
	}
	err = s.ask(ctx, func() error {
		if s.w.full && s.is(fullReleasesNothing) {
			return driver.ErrUnavailable
		}
		e := s.w.entry(name)
		if s.w.full && (s.is(fullEndsHold) || s.is(fullForgetsCoolDown)) && keep > 0 {
			if o = s.release(e, token, 0); s.is(fullEndsHold) {
				return driver.ErrUnavailable
			}
			return nil
		}
		if o = s.release(e, token, keep); keep == 0 || !s.is(coolDownUntold) {
			e.signal()
		}
		return nil
	})
	if err != nil {
		return driver.OutcomeGone, s.blab(err, token)
	}
	return o, nil
}

func (s *ref) release(e *entry, token string, keep time.Duration) driver.Outcome {
	w := s.w
	if e.leave(token) {
		return driver.OutcomeReleased
	}
	for _, h := range e.holds {
		switch {
		case h.token == token && h.reserved && s.is(releaseKeepsReservation):
			h.until = h.since.Add(time.Hour)
			return driver.OutcomeReleased
		case h.token == token:
			return s.releaseHold(e, h, keep)
		}
	}
	past, known := e.past[token]
	switch {
	case s.is(releaseAnybody) && !known && len(e.holds) > 0:
		e.holds = nil
	case s.is(staleReleaseRemoves) && past == driver.OutcomeTaken:
		e.holds = nil
	case s.is(secondReleaseRemoves) && past == driver.OutcomeReleased:
		e.holds = nil
	case s.is(secondReleaseWarms) && past == driver.OutcomeReleased:
		e.cooling = time.Time{}
	case s.is(staleReleaseCools) && keep > 0:
		e.cooling = w.now().Add(keep)
	case s.is(secondReleaseSaysReleased) && past == driver.OutcomeReleased:
		return driver.OutcomeReleased
	case s.is(wrongTokenIsTaken) && len(e.holds) > 0:
		return driver.OutcomeTaken
	}
	if past == driver.OutcomeReleased {
		return driver.OutcomeGone
	}
	return past
}

func (s *ref) releaseHold(e *entry, h *hold, keep time.Duration) driver.Outcome {
	w := s.w
	if !w.lives(h) {
		w.drop(e, h.token, driver.OutcomeGone)
		if s.is(lateReleaseSaysReleased) {
			return driver.OutcomeReleased
		}
		return driver.OutcomeExpired
	}
	end := w.now().Add(keep)
	if s.is(refusedQueues) && e.refused == 3 {
		end = later(end, w.now().Add(400*time.Millisecond)) // for the first caller that was refused
	}
	if end.After(w.now()) && (!s.is(coolDownForgotten) || keep == 0) {
		e.cooling = later(e.cooling, end)
	}
	if e.intent == h.token && !s.is(intentOutlivesRelease) {
		e.intent = ""
	}
	w.drop(e, h.token, driver.OutcomeReleased)
	s.carryOutLost(e)
	switch {
	case s.is(releaseFreesAllReaders) && h.shared:
		e.holds = nil
	case s.is(releaseDropsTheRest):
		// The rest of this case only: all others share the connection.
		if first, ok := strings.CutSuffix(e.name, ".n2"); ok {
			w.entry(first + ".n1").holds = nil
		}
	case s.is(releaseEndsBound):
		s.unbind(driver.ErrLost)
	case s.is(releaseSaysGone):
		return driver.OutcomeGone
	}
	return driver.OutcomeReleased
}

// Guarantees implements driver.Store.
func (s *ref) Guarantees() driver.Guarantees {
	g := s.w.g
	if s.is(lossDelayUnbound) {
		g.LossDelay = time.Second
	}
	if s.is(lackUntrue) {
		g.Lacks |= driver.AbilityReporter
	}
	if s.is(guaranteesChange) {
		g.Notes = []string{fmt.Sprint(s.w.foil.Add(1))}
	}
	return g
}

// Close implements driver.Store.
func (s *ref) Close() error {
	first := false
	s.once.Do(func() {
		first = true
		close(s.done)
		if s.is(closeKeepsBound) {
			return
		}
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.unbind(driver.ErrClosed)
		if s.w.g.Bound != driver.BoundToNothing || s.is(closeDropsHolds) {
			s.w.dropAll(s)
		}
	})
	if !s.is(closeForgetsWaiters) {
		s.waits.Wait()
	}
	if !first && s.is(secondCloseFails) {
		return driver.ErrClosed
	}
	return nil
}

// misses reports whether a client takes e for free, because it has used e often.
func (s *ref) misses(e *entry) bool {
	switch {
	case e.uses[s] < 20:
		return false
	case s.is(oldUserMissesCoolDown):
		return e.cooling.After(s.w.now())
	case s.is(oldUserMissesGrowth):
		return slices.ContainsFunc(e.holds, func(h *hold) bool { return len(h.holder.Label) == driver.MaxLabel })
	}
	return false
}
