package padlocktest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.Places
} = (*Script)(nil)

// Guarantees implements driver.Store.
func (s *Script) Guarantees() driver.Guarantees {
	g := s.mem.Guarantees()
	g.Store = "padlocktest"
	g.InProcess = false
	return g
}

// Close implements driver.Store.
func (s *Script) Close() error { return s.mem.Close() }

// Acquire implements driver.Store.
func (s *Script) Acquire(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	err = s.carryOut(ctx, Acquire, func(ctx context.Context) error {
		if g, err = s.mem.Acquire(ctx, r); err != nil {
			return s.heldBy(err)
		}
		if r.Replaces.Text() != "" {
			s.unbind(r.Replaces.Text())
		}
		s.bind(r.Name, r.Token.Text(), &g)
		g.From = 0
		return nil
	})
	return onlyError(g, err)
}

func (s *Script) heldBy(err error) error {
	var held *padlock.HeldError
	if !errors.As(err, &held) {
		return err
	}
	s.disguise(held.Holds)
	held.Until = time.Time{}
	for i := range held.Holds {
		u := held.Holds[i].Until
		if u.IsZero() {
			held.Until = u
			break
		}
		if u.After(held.Until) {
			held.Until = u
		}
	}
	return err
}

// onlyError removes the Grant if there is an error. The store in memory may have granted the lock
// before the Script drops the reply. With a real server, the caller would not see the Grant then.
func onlyError(g driver.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return driver.Grant{}, err
	}
	return g, nil
}

// Extend implements driver.Store.
func (s *Script) Extend(ctx context.Context, name, token string, ttl time.Duration) (g driver.Grant, err error) {
	err = s.carryOut(ctx, Extend, func(ctx context.Context) error {
		g, err = s.mem.Extend(ctx, name, token, ttl)
		g.From = 0
		return err
	})
	return onlyError(g, err)
}

// Release implements driver.Store.
func (s *Script) Release(ctx context.Context, name, token string, keep time.Duration) (out driver.Outcome, err error) {
	err = s.carryOut(ctx, Release, func(ctx context.Context) error {
		if out, err = s.mem.Release(ctx, name, token, keep); err == nil {
			s.unbind(token)
		}
		return err
	})
	return out, err
}

// Wait implements driver.Waiter.
func (s *Script) Wait(ctx context.Context, r driver.Request, reserve bool) (g driver.Grant, err error) {
	err = s.carryOut(ctx, Wait, func(ctx context.Context) error {
		if g, err = s.mem.Wait(ctx, r, reserve); err == nil && g.TTL > 0 { // the lock was handed over
			s.bind(r.Name, r.Token.Text(), &g)
		}
		return err
	})
	return onlyError(g, err)
}

// Convert implements driver.Converter.
func (s *Script) Convert(ctx context.Context, r driver.Request) (g driver.Grant, err error) {
	err = s.carryOut(ctx, Convert, func(ctx context.Context) error {
		g, err = s.mem.Convert(ctx, r)
		g.From = 0
		return s.heldBy(err)
	})
	return onlyError(g, err)
}

// Inspect implements driver.Admin.
func (s *Script) Inspect(ctx context.Context, name string) (driver.State, error) {
	state, err := s.mem.Inspect(ctx, name)
	s.disguise(state.Holds)
	return state, err
}

// List implements driver.Admin.
func (s *Script) List(ctx context.Context, prefix string) ([]driver.State, error) {
	states, err := s.mem.List(ctx, prefix)
	for _, state := range states {
		s.disguise(state.Holds)
	}
	return states, err
}

// Break implements driver.Admin.
func (s *Script) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	return s.mem.Break(ctx, name, seenFence)
}

// StoreID implements driver.Places.
func (s *Script) StoreID(ctx context.Context) (string, error) { return s.mem.StoreID(ctx) }

// Location implements driver.Places.
func (s *Script) Location(name string) (string, error) { return s.mem.Location(name) }

// SamePlace implements driver.Places.
func (s *Script) SamePlace(other driver.Store) bool { return s == other }
