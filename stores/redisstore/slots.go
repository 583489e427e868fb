package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// mostTaken is the greatest number of permits that AcquireSlot supports. It looks at all permits of
// a name with one script, and the server does nothing else while a script runs. If a name has more
// permits, the caller must look at one permit after the other.
const mostTaken = 64

// AcquireSlot implements fast.SlotTaker with one request. The store lacks this ability if it has
// the option Foreign.
func (s *Store) AcquireSlot(ctx context.Context, r driver.Request, n int, overtake bool) (int, driver.Grant, error) {
	if s.guarantees.Lacks&driver.AbilitySlotTaker != 0 {
		return 0, driver.Grant{}, errors.ErrUnsupported
	}
	if err := s.checkSlots(&r, n); err != nil {
		return 0, driver.Grant{}, err
	}
	c, err := s.ready(ctx, true)
	if err != nil {
		return 0, driver.Grant{}, err
	}
	slot, g, err := s.acquireSlot(ctx, c, &r, n, overtake)
	g, err = s.confirmed(ctx, &r, g, err)
	return slot, g, err
}

// checkSlots finds the errors in a request for a permit.
func (s *Store) checkSlots(r *driver.Request, n int) error {
	if err := fast.CheckSlots(r.Name, n, &s.guarantees); err != nil {
		return err
	}
	if n > mostTaken || !s.fast(r) {
		return fmt.Errorf("%w: request: any permit of at most %d is exclusive, and without Replaces and FenceAbove", driver.ErrInvalid, mostTaken)
	}
	return r.Validate(&s.guarantees)
}

func (s *Store) acquireSlot(ctx context.Context, c *connected, r *driver.Request, n int, overtake bool) (int, driver.Grant, error) {
	gate := s.keys.lock(fast.SlotGate(r.Name, n)).keys
	keys := append(make([]string, 0, 2+2*n), gate[0], gate[3])
	for i := range n {
		permit := s.keys.lock(fast.SlotName(r.Name, i)).keys
		keys = append(keys, permit[0], permit[1])
	}
	a, err := s.readAnswer(ctx, bothSlotScripts[s.config.strings]().do(ctx, c, keys,
		[]string{counted(r.Token.Text()), millis(r.TTL), millis(r.TTL + s.keep), holderText(&r.Holder), digit(overtake)}))
	if err != nil {
		return 0, driver.Grant{}, err
	}
	switch a.kind {
	case replyGranted:
		return int(a.number(0)), driver.Grant{Fence: s.callerFence(a.number(1)), TTL: r.TTL}, nil
	case replySlow:
		return s.slowSlot(ctx, c, r, int(a.number(0)))
	case replyHeld, replyBehind:
		return s.slowSlots(ctx, c, r, &a)
	}
	return 0, driver.Grant{}, unreadable()
}

// The kinds of replies that only slot_acquire.lua sends.
const (
	replySlow   = "F"
	replyBehind = "B"
)

// slowSlot takes one permit with the full script.
func (s *Store) slowSlot(ctx context.Context, c *connected, r *driver.Request, slot int) (int, driver.Grant, error) {
	permit := *r
	permit.Name = fast.SlotName(r.Name, slot)
	g, err := s.fullAcquire(ctx, c, &permit)
	return slot, g, err
}

// slowSlots tries to take the permits that the fast script left to the full script. If it gets
// none, it reports the holds of all permits.
func (s *Store) slowSlots(ctx context.Context, c *connected, r *driver.Request, a *answer) (int, driver.Grant, error) {
	all := &driver.HeldError{Waiters: -1}
	for slot := range a.rest {
		var err error
		switch m := &a.rest[slot]; {
		case m.IsArray():
			err = s.fastHeld(m)
		case a.kind == replyHeld:
			var g driver.Grant
			if _, g, err = s.slowSlot(ctx, c, r, slot); err == nil {
				return slot, g, nil
			}
		}
		var held *driver.HeldError
		if errors.As(err, &held) {
			all.Holds = append(all.Holds, held.Holds...)
		} else if err != nil {
			return 0, driver.Grant{}, err
		}
	}
	for i := range all.Holds {
		if u := all.Holds[i].Until; all.Until.IsZero() || !u.IsZero() && u.Before(all.Until) {
			all.Until = u
		}
	}
	return 0, driver.Grant{}, all
}
