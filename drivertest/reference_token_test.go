package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	refusedForEver     bug = "a token that was refused once is refused for ever"
	refusedKeepsFence  bug = "a token that was refused gets the fence of that time"
	refusalComesBack   bug = "a request whose refusal was lost takes the name when it is free"
	refusalIsCleanedUp bug = "a late clean-up, after a refusal was lost, ends the next hold of the token"
	slotRefusedForEver bug = "AcquireSlot refuses a token for ever after one refusal"
)

// refusalLasts reports whether a token stays refused, if that is the bug.
func (s *ref) refusalLasts(e *entry, token string) bool {
	_, refused := e.refusals[token]
	return refused && s.is(refusedForEver)
}

// noteRefusal notes that r was refused. The world is locked.
func (s *ref) noteRefusal(e *entry, r *driver.Request) {
	e.refused++
	if e.refusals == nil {
		e.refusals = make(map[string]uint64)
	}
	e.refusals[r.Token.Text()] = e.fence
	if !s.lose.Load() {
		return
	}
	switch late := *r; {
	case s.is(refusalComesBack):
		e.lostOne = &late
	case s.is(refusalIsCleanedUp):
		time.AfterFunc(100*time.Millisecond, func() {
			s.w.mu.Lock()
			defer s.w.mu.Unlock()
			s.w.drop(e, late.Token.Text(), driver.OutcomeGone)
		})
	}
}

// carryOutLost carries out a request whose refusal was lost, after a release, if that is the bug.
func (s *ref) carryOutLost(e *entry) {
	if r := e.lostOne; r != nil && s.w.free(e, r) {
		e.lostOne = nil
		s.add(e, r, r.TTL)
	}
}

func (s *ref) repeat(e *entry, h *hold, r *driver.Request) (driver.Grant, error) {
	switch {
	case s.is(repeatIsRefused) && !h.reserved:
		return driver.Grant{}, s.w.heldError(e, r)
	case s.is(repeatMints):
		h.fence = s.w.mint(e, 0)
	case s.is(repeatConverts):
		h.shared = r.Shared
	case s.is(claimMints) && h.reserved:
		h.fence = s.w.mint(e, 0)
	}
	if s.w.g.Lease && !(s.is(repeatKeepsLease) && !h.reserved) && !(s.is(claimIsShort) && h.reserved) {
		h.until = later(h.until, s.w.now().Add(r.TTL))
		if s.is(repeatShortens) && !h.reserved {
			h.until = s.w.now().Add(r.TTL)
		}
	}
	if h.reserved && !s.w.g.Lease {
		h.until = time.Time{}
	}
	h.reserved = false
	g := s.grant(h)
	g.Shared = g.Shared && !s.is(repeatModeUntold)
	return g, nil
}
