package memstore

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// AcquireSlot implements fast.SlotTaker.
func (s *Store) AcquireSlot(ctx context.Context, r driver.Request, n int, ahead bool) (int, driver.Grant, error) {
	if err := s.checkSlots(&r, n); err != nil {
		return 0, driver.Grant{}, err
	}
	if err := s.enter(ctx); err != nil {
		return 0, driver.Grant{}, err
	}
	defer s.unlock()
	now, free, permit := s.now(), -1, ""
	for i := range n {
		name := fast.SlotName(r.Name, i)
		e := s.entries[name]
		if e != nil {
			if e.Live(r.Token.Text(), now.Now) != nil {
				g, err := s.take(e, &r, now)
				return i, g, err
			}
		}
		if free < 0 && (e == nil || !e.blocked(&r, now)) {
			free, permit = i, name
		}
	}
	if gate := s.entries[fast.SlotGate(r.Name, n)]; free < 0 || !ahead && gate != nil && gate.isBusy(now) {
		return 0, driver.Grant{}, s.slotsHeld(&r, n, now)
	}
	g, err := s.take(s.entry(permit, now), &r, now)
	return free, g, err
}

// checkSlots finds the errors in a request for a permit.
func (s *Store) checkSlots(r *driver.Request, n int) error {
	if err := fast.CheckSlots(r.Name, n, &s.guarantees); err != nil {
		return err
	}
	if r.Shared || r.Replaces.Text() != "" || r.FenceAbove != 0 {
		return fmt.Errorf("%w: request: any permit is exclusive, and without Replaces and FenceAbove", driver.ErrInvalid)
	}
	return r.Validate(&s.guarantees)
}

// slotsHeld returns the error for a request that found no free permit. The error has the holds of
// all permits.
func (s *Store) slotsHeld(r *driver.Request, n int, now moment) error {
	err := &driver.HeldError{Waiters: -1}
	for i := range n {
		if e := s.entries[fast.SlotName(r.Name, i)]; e != nil {
			err.Holds = append(err.Holds, e.HeldError(r.Token.Text(), now.Now).Holds...)
		}
	}
	for i := range err.Holds {
		if u := err.Holds[i].Until; err.Until.IsZero() || u.Before(err.Until) {
			err.Until = u
		}
	}
	return err
}
