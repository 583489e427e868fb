package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// locks are the locks of a Manager's sessions.
type locks struct {
	locker *padlock.Locker
	rules  sessionstore.Rules
}

// acquire takes the lock of the session at key. It waits until ctx ends, but no longer than the
// duration wait. If wait is 0, acquire tries once. If another request holds the lock, the error is
// a *BusyError.
func (p *locks) acquire(ctx context.Context, key string, wait time.Duration) (*heldLock, error) {
	start := time.Now()
	lock, err := p.locker.Acquire(ctx, p.rules.Lock(key), padlock.Wait(wait))
	if err != nil {
		return nil, p.hideLockName(key, min(wait, time.Since(start)).Round(time.Millisecond), err)
	}
	unlock := func() error {
		over := lock.Remaining() == 0
		err := lock.Release()
		if over && !lockEnded(err) { // the lock was lost, and then the lock store did not respond
			err = joinErrors(padlock.ErrExpired, err)
		}
		return p.withoutName(err)
	}
	check := func(ctx context.Context) error { return p.withoutName(lock.Check(ctx)) }
	return &heldLock{users: 1, unlock: unlock, check: check, join: lock.Join}, nil
}

// hideLockName turns the error of Acquire into an error without the lock's name. In PHP mode the
// lock's name contains the session's id.
func (p *locks) hideLockName(key string, waited time.Duration, err error) error {
	var held *padlock.HeldError
	if !errors.As(err, &held) {
		switch {
		case errors.Is(err, padlock.ErrTooManyWaiters):
			return ErrTooManyWaiters
		case errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrUnavailable) && !errors.Is(err, padlock.ErrUncertain):
			return &BusyError{Waited: waited, Lock: p.rules.ShownLock(key)} // the caller waited behind other callers of this process
		}
		return p.withoutName(err)
	}
	busy := &BusyError{Waited: waited, Lock: p.rules.ShownLock(key)}
	if len(held.Holds) > 0 {
		busy.Holder = held.Holds[0].String()
		busy.Foreign = held.Foreign() && held.Until.IsZero()
	}
	return busy
}

// withoutName returns an error of the same kind as err, but without the text of err, because that
// text contains the lock's name.
func (p *locks) withoutName(err error) error {
	var inner *padlock.Error
	if errors.As(err, &inner) {
		return fmt.Errorf("session lock: %w", inner.Err)
	}
	return err
}

// waitShare limits waiting: a request may wait for at most this part of its remaining time.
const waitShare = 0.7

// deadlineOf returns when the request must be answered: its context's deadline, or the end of the
// server's WriteTimeout if that comes first. It is zero if neither is set.
func deadlineOf(r *http.Request, start time.Time) time.Time {
	end, _ := r.Context().Deadline()
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
		if t := start.Add(srv.WriteTimeout); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end
}

// longestWait is the longest result of waitBound. Callers add saveTime to it.
const longestWait = 1<<63 - 1 - saveTime

// waitBound returns how long s may still wait for its lock.
func (s *state) waitBound() time.Duration {
	wait := min(s.set.wait, longestWait)
	if !s.deadline.IsZero() {
		wait = min(wait, time.Duration(waitShare*float64(time.Until(s.deadline))))
	}
	return max(wait, 0)
}

// A heldLock is a session's lock that a request holds. An Update in an Exclusive request shares it.
type heldLock struct {
	unlock func() error
	// check finds out whether the lock is still held, and join returns a context that knows it. If
	// the Manager uses no locks, unlock, check and join are nil.
	check func(context.Context) error
	join  func(context.Context) (context.Context, context.CancelFunc)

	mu    sync.Mutex
	users int
	wrote bool // something was saved while it was held
}

// h.addUser adds one user of the lock and returns h.
func (h *heldLock) addUser() *heldLock {
	if h != nil {
		h.mu.Lock()
		h.users++
		h.mu.Unlock()
	}
	return h
}

// removeUser is called when one user of the lock is done. After the last user, it releases the
// lock. If the lock had already ended by then, err says why. The result wrote says whether
// something was saved under the lock.
func (h *heldLock) removeUser() (wrote bool, err error) {
	h.mu.Lock()
	h.users--
	last, wrote := h.users == 0, h.wrote
	h.mu.Unlock()
	if last && h.unlock != nil {
		err = h.unlock()
	}
	return wrote, err
}

func (h *heldLock) note() {
	h.mu.Lock()
	h.wrote = true
	h.mu.Unlock()
}

// lockEnded reports whether the lock is known to have ended.
func lockEnded(err error) bool {
	return errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) || errors.Is(err, padlock.ErrMaxHold)
}

// lock takes the session's lock at key, if the Manager uses locks. The caller holds s.mu.
func (s *state) lock(ctx context.Context, key string) (*heldLock, error) {
	m := s.m
	if m.cfg.locks == nil {
		return &heldLock{users: 1}, nil
	}
	if !m.enterLine(key) {
		return nil, ErrTooManyWaiters
	}
	start := time.Now()
	waiting, done := s.waits.beginWait(ctx)
	defer done()
	held, err := m.cfg.locks.acquire(waiting, key, s.waitBound())
	m.leaveLine(key)
	err = interrupted(waiting, lockFailure(err))
	s.event(ctx, Event{Kind: EventWaited, Took: time.Since(start), Err: err})
	return held, err
}

// errLocksDown means that a lock could not be taken, although no other request is known to hold it.
var errLocksDown = errors.New("its locks cannot be reached")

// lockFailure turns an error of Lock into the session's error. A request saves only after Lock has
// succeeded, so nothing was saved.
func lockFailure(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrBusy) || errors.Is(err, ErrTooManyWaiters):
		return err
	case errors.Is(err, padlock.ErrAlreadyHeld):
		return errNested
	case errors.Is(err, ErrUnavailable) || errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrUncertain):
		return joinErrors(joinErrors(ErrUnavailable, errLocksDown), err)
	}
	return joinErrors(ErrUnavailable, err)
}

// release releases the request's lock. The lock may have ended earlier, without a release. Usually
// that does no harm, because commits check that no other request has changed the session. But if
// commits need the lock (sessionstore.Traits.CommitsNeedLock), another program may have overwritten
// what this request has saved. Then release makes the session fail.
func (s *state) release(ctx context.Context) {
	if s.held == nil {
		return
	}
	wrote, err := s.held.removeUser()
	s.held = nil
	if err = s.lockEnded(ctx, err); err != nil && wrote && s.Failed() == nil {
		s.Fail(err)
	}
}

// lockEnded handles the error of unlock. It returns ErrUnsaved if the lock had ended and commits
// need the lock.
func (s *state) lockEnded(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s.event(ctx, Event{Kind: EventLockLost, Err: err})
	if s.m.traits.CommitsNeedLock && lockEnded(err) {
		return joinErrors(ErrUnsaved, err)
	}
	return nil // the conditions of the commit protected the session
}

// canDoWithout reports whether the session can be used without its lock. err is the error of the
// attempt to take the lock. Both of these conditions must be met:
//
//   - err is errLocksDown: the lock store cannot be reached, or it grants no locks for a while
//     after a restart. So no other request is known to hold the lock.
//   - No other programs write the session. So the conditions of commits are enough to protect it.
func (s *state) canDoWithout(ctx context.Context, err error) bool {
	if s.m.traits.CommitsNeedLock || !errors.Is(err, errLocksDown) {
		return false
	}
	s.event(ctx, Event{Kind: EventUnlocked, Err: err})
	return true
}

// underLock calls f under the lock of the session at key. If the request does not hold the lock,
// underLock takes it for this call. There are two exceptions in which f runs without the lock: the
// mode LastWriteWins, and a lock store that is down (see canDoWithout).
//
// sessionstore.Traits.CommitsNeedLock rules out both exceptions, because other programs rely on the
// lock. Before the call of f, underLock then checks whether the request's lock has ended, and takes
// the lock again if necessary. If the lock ends during f, the outcome of f is unknown.
func (s *state) underLock(ctx context.Context, key string, f func() error) error {
	if err := s.checkHeld(ctx, key); err != nil {
		return err
	}
	if s.held != nil {
		err := f()
		s.held.note()
		return err
	}
	if s.set.mode == LastWriteWins && !s.m.traits.CommitsNeedLock {
		return f()
	}
	held, err := s.lock(ctx, key)
	if err != nil {
		if s.canDoWithout(ctx, err) {
			return f()
		}
		return err
	}
	defer func() {
		if held != nil { // f panicked
			held.removeUser()
		}
	}()
	err = f()
	_, lost := held.removeUser()
	held = nil
	if lost = s.lockEnded(ctx, lost); err == nil {
		err = lost
	}
	return err
}

// checkHeld makes sure that the request still holds its lock, if commits need it. If the lock has
// ended, it is taken again. The conditions of the commit then detect changes by other programs.
func (s *state) checkHeld(ctx context.Context, key string) error {
	if s.held == nil || s.held.check == nil || !s.m.traits.CommitsNeedLock {
		return nil
	}
	err := s.held.check(ctx)
	switch {
	case err == nil:
		return nil
	case !lockEnded(err):
		return joinErrors(ErrUnavailable, err) // nothing was saved
	}
	wrote, _ := s.held.removeUser()
	s.held = nil
	s.event(ctx, Event{Kind: EventLockLost, Err: err})
	if wrote {
		return joinErrors(ErrUnsaved, err) // the write may have come after the lock had ended
	}
	held, err := s.lock(ctx, key)
	if err == nil {
		s.held = held
	}
	return err
}

// enterLine counts the caller as a waiter, unless there are too many for this session.
func (m *Manager) enterLine(key string) bool {
	of := digest(sha256.Sum256([]byte(key)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[of] >= maxWaiters {
		return false
	}
	m.waiting[of]++
	return true
}

func (m *Manager) leaveLine(key string) {
	of := digest(sha256.Sum256([]byte(key)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[of]--; m.waiting[of] == 0 {
		delete(m.waiting, of)
	}
}
