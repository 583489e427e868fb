package pgadvisory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	// reservation is how long a lock stays reserved for a waiter that got it. If the waiter's
	// process cannot end the reservation because it is stopped, the server ends the waiter's
	// session a little later.
	reservation = 400 * time.Millisecond
	// A waiter without its own session tries again after a random pause of pauseMin to 2 ×
	// pauseMin.
	pauseMin = 25 * time.Millisecond
)

// Wait implements driver.Waiter. The store has 8 sessions for waiters. If reserve is true and one
// of them is free, the caller waits in the server's queue and is granted the lock in that session.
// All other waiters try again from time to time.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	var place *slot
	if reserve {
		place = s.pool.waiter()
	}
	if place == nil {
		return driver.Grant{}, s.nap(ctx, r.Name)
	}
	g, err := s.waitIn(ctx, place, &r)
	if err == nil && g == (driver.Grant{}) {
		err = s.endReason(ctx)
	}
	return g, s.calls.AfterClose(err)
}

// endReason returns the reason if a wait has to end, and nil otherwise.
func (s *Store) endReason(ctx context.Context) error {
	if s.calls.Closing.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// nap returns after a pause, or when this process releases the lock.
func (s *Store) nap(ctx context.Context, name string) error {
	woken, done := s.holds.nap(s.cfg.keys.lockNumber(name))
	defer done()
	pause := time.NewTimer(pauseMin + rand.N(pauseMin))
	defer pause.Stop()
	select {
	case <-woken:
	case <-pause.C:
	case <-ctx.Done():
	case <-s.calls.Closing.Done():
	}
	return s.endReason(ctx)
}

// waitIn waits in the session of a slot. Unless the lock was granted, it frees the slot.
func (s *Store) waitIn(ctx context.Context, place *slot, r *driver.Request) (driver.Grant, error) {
	c, err := s.pool.dial(place)
	if err != nil { // the server may be back soon
		s.pool.giveBack(place)
		return driver.Grant{}, s.nap(ctx, r.Name)
	}
	key := s.cfg.keys.lockNumber(r.Name)
	granted, err := s.block(ctx, c, key, r.Shared)
	var g driver.Grant
	if granted {
		g, err = s.handedOver(ctx, place, c, key, r)
	}
	if g.TTL == 0 {
		s.pool.giveBack(place)
	}
	if err == nil && g.TTL == 0 {
		return g, s.nap(ctx, r.Name)
	}
	return g, err
}

// block waits in the server's queue until the session has the lock, or ctx ends.
func (s *Store) block(ctx context.Context, c *conn, key int64, shared bool) (granted bool, err error) {
	if err := s.endReason(ctx); err != nil {
		return false, err
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	cancelled := false
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-s.calls.Closing.Done():
		}
		cancelled = true
		c.cancel(done)
	})
	_, err = c.execWithin(0, &awaitLock[index(shared)], number(key))
	close(done)
	wg.Wait()
	// If the server granted the lock at the last moment, closing the connection releases it.
	if cancelled {
		c.closeConn()
		return false, s.endReason(ctx)
	}
	if yes, _ := connEnded(err); yes {
		return false, nil // Wait returns, and the caller asks again
	}
	if err != nil {
		c.closeConn()
	}
	return err == nil, failure(err)
}

// handedOver is called after the server has granted the lock to the session of a waiter. It
// reserves the lock for the waiter's token.
func (s *Store) handedOver(ctx context.Context, place *slot, c *conn, key int64, r *driver.Request) (driver.Grant, error) {
	fence, err := s.readyFor(c, key, r)
	if err != nil && !c.alive() {
		return driver.Grant{}, nil // the lock ended with its session, and the caller asks again
	}
	if err != nil {
		s.undo(c, key, index(r.Shared), nil)
		if _, held := err.(*driver.HeldError); held {
			err = nil
		}
		return driver.Grant{}, err
	}
	h, err := s.holds.enter(ctx, r.Name, r.Token)
	if err == nil && h.state != none {
		s.holds.leave(h)
		err = fmt.Errorf("%w: the token has a hold", driver.ErrInvalid)
	}
	if err != nil {
		return driver.Grant{}, s.undo(c, key, index(r.Shared), err)
	}
	defer s.holds.leave(h)
	free := sync.OnceFunc(func() { s.pool.giveBack(place) })
	stop := context.AfterFunc(c.bound, free)
	h.key, h.back = key, func() { stop(); free() }
	s.pool.mu.Lock()
	c.add(key, !r.Shared)
	c.ops--
	s.pool.mu.Unlock()
	s.holds.noteGrant(h, reserved, c, r.Shared, fence, r)
	name, token := r.Name, r.Token
	h.timer = time.AfterFunc(reservation, func() { s.notClaimed(name, token) })
	return driver.Grant{Fence: fence, TTL: reservation}, nil
}

// readyFor returns the fence for a waiter that has got the lock. A reader gets an error and no
// fence if another reader wants to be promoted.
func (s *Store) readyFor(c *conn, key int64, r *driver.Request) (uint64, error) {
	if r.Shared {
		rows, err := c.exec(&noIntent, number(s.cfg.keys.intent(r.Name)))
		if err != nil {
			return 0, failure(err)
		}
		if string(rows[0][0]) != "t" {
			return 0, &driver.HeldError{Waiters: -1}
		}
	}
	if s.cfg.noFences {
		return 0, nil
	}
	return s.mint(c, key, r.Shared, r)
}

// notClaimed ends a reservation that was not claimed in time.
func (s *Store) notClaimed(name, token string) {
	if s.calls.Begin(s.calls.Closing) != nil {
		return
	}
	defer s.calls.Work.Done()
	h, err := s.holds.enter(s.calls.Closing, name, token)
	if err != nil {
		return
	}
	defer s.holds.leave(h)
	if h.state == reserved {
		_, _ = s.letGo(h)
	}
}
