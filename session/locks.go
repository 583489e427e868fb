package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/padlock-go/padlock"
)

// Locks takes locks of sessions. It is safe for concurrent use.
type Locks interface {
	// Lock takes the lock of the session at key and waits for it at most for
	// wait, and as long as ctx. unlock gives it back; it is called once and
	// takes its own time. The error is a *BusyError if somebody else has it.
	Lock(ctx context.Context, key string, shared bool, wait time.Duration) (unlock func() error, err error)
}

type padlockLocks struct {
	locker *padlock.Locker
	ids    *idRules
}

func (p *padlockLocks) Lock(ctx context.Context, key string, shared bool, wait time.Duration) (func() error, error) {
	opts := []padlock.Option{padlock.Wait(wait)}
	if shared {
		opts = append(opts, padlock.Shared())
	}
	lock, err := p.locker.Acquire(ctx, p.ids.lock(key), opts...)
	if shared && errors.Is(err, errors.ErrUnsupported) {
		// It is held for one load only; and it lets less happen, not more.
		lock, err = p.locker.Acquire(ctx, p.ids.lock(key), opts[:1]...)
	}
	if err != nil {
		return nil, p.refused(key, wait, err)
	}
	return func() error { return p.hidden(lock.Release()) }, nil
}

// refused says what happened without the lock's name, which in PHP mode holds
// the session's id.
func (p *padlockLocks) refused(key string, wait time.Duration, err error) error {
	var held *padlock.HeldError
	if !errors.As(err, &held) {
		if errors.Is(err, padlock.ErrTooManyWaiters) {
			return ErrTooManyWaiters
		}
		return p.hidden(err)
	}
	busy := &BusyError{Waited: wait, Lock: p.ids.redacted(key)}
	if len(held.Holds) > 0 {
		busy.Holder = held.Holds[0].String()
		busy.Foreign = held.Foreign() && held.Until.IsZero()
	}
	return busy
}

// hidden keeps what an error is and drops its text, which names the lock.
func (p *padlockLocks) hidden(err error) error {
	var inner *padlock.Error
	if errors.As(err, &inner) {
		return fmt.Errorf("session lock: %w", inner.Err)
	}
	return err
}

// waitShare is the part of the time that a request has left which it may spend
// on waiting.
const waitShare = 0.7

// deadlineOf is when the request must be answered: its context's deadline, or
// what the server's WriteTimeout leaves. Zero if nothing is set.
func deadlineOf(r *http.Request, start time.Time) time.Time {
	end, _ := r.Context().Deadline()
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
		if t := start.Add(srv.WriteTimeout); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end
}

// waitBound is how long s may still wait for its lock.
func (s *Session) waitBound() time.Duration {
	wait := s.set.wait
	if wait == 0 {
		wait = s.m.cfg.wait
	}
	if !s.deadline.IsZero() {
		wait = min(wait, time.Duration(waitShare*float64(time.Until(s.deadline))))
	}
	return max(wait, 0)
}

// lock takes the session's lock at key, if there are locks. s.mu is held.
func (s *Session) lock(ctx context.Context, key string, shared bool) (func(), error) {
	m := s.m
	if m.cfg.locks == nil {
		return func() {}, nil
	}
	if !m.enterLine(key) {
		return nil, ErrTooManyWaiters
	}
	start := time.Now()
	unlock, err := m.cfg.locks.Lock(ctx, key, shared, s.waitBound())
	m.leaveLine(key)
	if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrTooManyWaiters) && !errors.Is(err, ErrUnavailable) {
		err = both(ErrUnavailable, err) // whatever became of the lock: nothing was saved
	}
	m.event(Event{Kind: EventWaited, Took: time.Since(start), Err: err})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := unlock(); err != nil {
			// What was saved was saved under its conditions.
			m.event(Event{Kind: EventLockLost, Err: err})
		}
	}, nil
}

// enterLine counts a waiter in, unless there are too many for this session.
func (m *Manager) enterLine(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[key] >= m.cfg.maxWaiters {
		return false
	}
	m.waiting[key]++
	return true
}

func (m *Manager) leaveLine(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[key]--; m.waiting[key] == 0 {
		delete(m.waiting, key)
	}
}
