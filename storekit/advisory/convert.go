package advisory

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A SharedStore is a Store whose dialect is a Sharer. It also implements driver.Converter.
type SharedStore[C Session] struct{ *hidden[C] }

// hidden is embedded, so that a store has the methods of Store, and no exported field.
type hidden[C Session] = Store[C]

// Shared returns the store with the method Convert.
func Shared[C Session](s *Store[C]) SharedStore[C] { return SharedStore[C]{s} }

// Convert implements driver.Converter.
func (s SharedStore[C]) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return storekit.Do(ctx, &s.calls, func() (driver.Grant, error) {
		h, err := s.enterHeld(ctx, r.Name, r.Token.Text())
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		switch {
		case h.shared && !r.Shared:
			err = s.promote(h, &r)
		case !h.shared && r.Shared:
			err = s.demote(h)
		case h.intent:
			err = s.withdraw(h)
		default:
			err = s.verify(h)
		}
		if err != nil && !h.c.alive() {
			err = driver.ErrLost
		}
		if err != nil {
			return driver.Grant{}, err
		}
		return h.grant(), nil
	})
}

// promote tries once to turn the shared hold h into an exclusive one. First it takes the intent,
// which keeps new readers out. Then it takes the exclusive lock, while h still has the shared one.
func (s SharedStore[C]) promote(h *hold[C], r *driver.Request) error {
	if err := s.intend(h); err != nil {
		return err
	}
	if held := s.holds.inTheWay(h.key, false, h); held != nil {
		return held
	}
	if !s.pool.seal(h.c, h.key) {
		return &driver.HeldError{Waiters: -1}
	}
	g, err := s.sharer.Promote(h.c.s, h.lock(), r)
	if err != nil || !g.Granted {
		s.pool.demote(h.c, h.key)
	}
	switch {
	case err != nil:
		return s.failure(err)
	case !g.Granted:
		return s.heldBy(h.c, h.lock())
	}
	s.holds.change(func() { h.shared, h.intent, h.fence = false, false, g.Fence })
	h.timer.Stop()
	return nil
}

// intend records in the server that h wants to be promoted. If h has the intent already, intend
// renews it. An intent that is not renewed in time ends after nine tenths of MaxIntent. Of the
// readers of this process only one asks the server, because the server would grant the intent twice
// to one session.
func (s SharedStore[C]) intend(h *hold[C]) error {
	lapse := driver.MaxIntent * 9 / 10
	h.lapses = time.Now().Add(lapse)
	if h.intent {
		h.timer.Reset(lapse)
		return nil
	}
	if !s.holds.intend(h) {
		return driver.ErrPromotionConflict
	}
	granted, err := s.sharer.Intend(h.c.s, h.lock())
	if err != nil || !granted {
		s.holds.change(func() { h.intent = false })
	}
	switch {
	case err == driver.ErrPromotionConflict:
		return err
	case err != nil:
		return s.failure(err)
	case !granted:
		return s.heldBy(h.c, h.lock())
	}
	name, token := h.name, h.token.Text()
	h.timer = time.AfterFunc(lapse, func() {
		s.later(name, token, func(h *hold[C]) { // it may have been renewed meanwhile
			if h.intent && h.c.alive() && !time.Now().Before(h.lapses) {
				_ = s.withdraw(h)
			}
		})
	})
	return nil
}

// demote turns an exclusive hold into a shared one.
func (s SharedStore[C]) demote(h *hold[C]) error {
	if err := s.sharer.Demote(h.c.s, h.lock()); err != nil {
		return s.failure(err)
	}
	s.holds.change(func() { h.shared = true })
	s.pool.demote(h.c, h.key)
	return nil
}
