package mysqladvisory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

const (
	// waitSlice is how long one statement waits for a lock. Then the waiter loses its place.
	waitSlice = 10 * time.Minute
	// reservation is how long a lock stays reserved after a waiter got it. If nobody claims the
	// lock in this time, the store releases it.
	reservation = 400 * time.Millisecond
	// waiterTimeout is the longest time between two statements in the session of a waiter. After
	// that time the server ends the session, because the waiter's process may have been stopped.
	// The server counts whole seconds.
	waiterTimeout = time.Second
	deadWaiter    = 3 * time.Second
	// A waiter without a session pauses for pauseMin to 2 × pauseMin before it looks at the lock
	// again. The pause is longer if other waiters came before it.
	pauseMin = 25 * time.Millisecond
)

var errCancelled = errors.New("a wait was cancelled")

// Wait implements driver.Waiter. The store has 8 sessions for waiters. Wait uses one of them only
// if reserve is true:
//
//	reserve  sessions      what Wait does
//	true     one is free   waits in the server's queue, and is granted the lock in that session
//	true     all are used  looks at the lock from time to time, until a session is free
//	false    any           looks at the lock from time to time
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	l, err := s.tryPrepare(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	if l == nil { // the server may be back soon
		return driver.Grant{}, s.nap(ctx)
	}
	key := l.keys.lockName(r.Name)
	place, w := s.pool.waiter(key, reserve)
	if w != nil {
		if place, err = s.standInLine(ctx, w); place == nil {
			return driver.Grant{}, err
		}
	}
	g, err := s.waitIn(ctx, place, l, key, &r)
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

// tryPrepare is like prepare. But if the server cannot be reached, it returns neither a layout nor
// an error.
func (s *Store) tryPrepare(ctx context.Context) (*layout, error) {
	if l := s.ready.Load(); l != nil {
		return l, nil
	}
	l, err := calls.Do(ctx, &s.calls, s.prepare)
	if errors.Is(err, driver.ErrInvalid) {
		return nil, err
	}
	return l, s.endReason(ctx)
}

// nap returns after a pause.
func (s *Store) nap(ctx context.Context) error {
	pause := time.NewTimer(pauseMin + rand.N(pauseMin))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	case <-s.calls.Closing.Done():
	}
	return s.endReason(ctx)
}

// standInLine waits in the line until a session for waiters is free, and returns the slot of that
// session. It leaves the line and returns nil if the lock seems to be free now, or if the wait has
// to end.
func (s *Store) standInLine(ctx context.Context, w *waiter) (*slot, error) {
	for {
		pause := time.NewTimer((pauseMin + rand.N(pauseMin)) * time.Duration(1+s.pool.countAhead(w)))
		select {
		case sl := <-w.place:
			pause.Stop()
			return sl, nil
		case <-w.woken:
		case <-ctx.Done():
		case <-s.calls.Closing.Done():
		case <-pause.C:
			if !s.looksFree(ctx, w.key) {
				continue
			}
		}
		pause.Stop()
		s.pool.leaveLine(w)
		return nil, s.endReason(ctx)
	}
}

// looksFree asks the server whether a lock is free. It also returns true if the server does not
// answer.
func (s *Store) looksFree(ctx context.Context, key string) bool {
	free, err := calls.Do(ctx, &s.calls, func() (bool, error) {
		c, err := s.pool.anyConn()
		if err != nil {
			return true, err
		}
		r, err := c.queryOne(isFree(key))
		return err != nil || r.isOne(0), err
	})
	return free || err != nil
}

// waitIn waits in the session of a slot. Unless the lock was granted, it frees the slot.
func (s *Store) waitIn(ctx context.Context, place *slot, l *layout, key string, r *driver.Request) (driver.Grant, error) {
	c, err := s.pool.dial(place)
	if err != nil { // the server may be back soon
		s.pool.giveBack(place)
		return driver.Grant{}, s.nap(ctx)
	}
	granted, err := s.block(ctx, c, key)
	var g driver.Grant
	if granted {
		g, err = s.handedOver(ctx, place, c, l, key, r)
	}
	if g.TTL == 0 {
		// The session cannot be used again, because the server would soon end it as idle. The
		// session may also have the lock, and only the end of the session makes sure that the lock
		// is free.
		c.loseConn(errUnclaimed)
		s.pool.giveBack(place)
	}
	if err == nil && g.TTL == 0 {
		return g, s.nap(ctx)
	}
	return g, err
}

// block waits in the server's queue until the session has the lock, or ctx ends. When ctx ends,
// block ends the connection, and with it the lock if the server granted it at the last moment. The
// server notices the end of the connection within a second, or when it grants the lock.
func (s *Store) block(ctx context.Context, c *conn, key string) (granted bool, err error) {
	if err := s.endReason(ctx); err != nil {
		return false, err
	}
	if _, err := c.exec(setTimeout(waiterTimeout)); err != nil {
		return false, nil // the caller asks again
	}
	stop := context.AfterFunc(ctx, func() { c.loseConn(errCancelled) })
	row, err := c.queryOneWithin(waitSlice+c.limit, take(key, waitSlice))
	if !stop() {
		return false, s.endReason(ctx)
	}
	if err != nil {
		return false, nil
	}
	if err := c.judge(row, 1); errors.Is(err, driver.ErrInvalid) {
		return false, err
	}
	return row.isOne(0) && c.alive(), nil
}

// handedOver is called when the session was granted the lock. It reserves the lock for the token of
// the request.
func (s *Store) handedOver(ctx context.Context, place *slot, c *conn, l *layout, key string, r *driver.Request) (g driver.Grant, err error) {
	var fence uint64
	if !s.cfg.noFences {
		if fence, err = s.mint(c, l, key, r); errors.Is(err, driver.ErrFencesUsedUp) {
			return g, err
		} else if err != nil {
			return g, nil // the caller asks again
		}
	}
	h, err := s.holds.enter(ctx, r.Name, r.Token)
	if err != nil {
		return g, err
	}
	defer s.holds.leave(h)
	if h.state != none {
		return g, fmt.Errorf("%w: the token has a hold", driver.ErrInvalid)
	}
	free := sync.OnceFunc(func() { s.pool.giveBack(place) })
	stop := context.AfterFunc(c.bound, free)
	h.key, h.back = key, func() { stop(); free() }
	c.addLoad()
	s.holds.noteGrant(h, reserved, c, fence, r)
	name, token := r.Name, r.Token
	h.timer = time.AfterFunc(reservation, func() { s.notClaimed(name, token) })
	return driver.Grant{Fence: fence, TTL: reservation}, nil
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
