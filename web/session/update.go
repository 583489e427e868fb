package session

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/web/internal/ordered"
	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Update loads the session again, runs fn, and saves the writes of fn at once. It works in a
// ReadOnly route, too. It also works after Commit, so that streaming handlers can use it. With a
// Locker, Update holds the session's lock meanwhile. If another request changes the session before
// the writes of fn are saved, fn runs again on the new values. So fn must be safe to repeat.
//
// If fn returns an error, Update returns that error and nothing is saved, in any mode. Calls that
// take effect at once (Incr, Take, Regenerate, Destroy) are not undone. fn does not see the
// request's own unsaved writes. fn and the request may write the same key. That is a conflict only
// if another request has changed the key. fn must use tx only.
//
// The context that fn gets has the values of the ctx of Update, and ends with it. A call for the same session that
// fn makes with this context would wait for the Update itself, so Update and calls that need the
// session's lock then return padlock.ErrAlreadyHeld at once.
func (h *Session) Update(ctx context.Context, fn func(ctx context.Context, tx *Session) error) error {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == noManager {
		return ErrNoSession
	}
	if s.inUpdate(ctx) {
		return s.refuse(errNested)
	}
	end := time.Now().Add(s.waitBound() + saveTime)
	for {
		if err := s.beginUse(ctx, false, ""); err != nil {
			return err
		}
		if s.Is(standing.Frozen) {
			return s.refuse(ErrMoved)
		}
		err, own := s.updateOnce(ctx, fn)
		switch {
		case err == nil || own || errors.Is(err, ErrClosed):
			return err
		case errors.Is(err, ErrConflict) && time.Now().Before(end) && ctx.Err() == nil:
			continue
		case s.stage == open:
			s.refuse(err) // so the answer does not report success
		}
		return err
	}
}

// updateOnce runs fn once. The second result reports whether fn itself returned the error.
func (s *state) updateOnce(ctx context.Context, fn func(context.Context, *Session) error) (err error, own bool) {
	tx := s.newTx()
	s.unlocked(func() { err, own = tx.runAndSave(ctx, fn) })
	s.takeOver(tx)
	return err, own
}

// newTx returns the state for fn. It has the same id as the state of the request. If that is an old
// id from before a Regenerate, fn sees only what a client with the old id may see.
func (s *state) newTx() *state {
	tx := &state{m: s.m, started: s.started, deadline: s.deadline, request: s.request, prefetch: s.prefetch, parent: s, sent: s.sent}
	if s.Key() != "" {
		tx.Place = s.Place
		tx.Again() // if the session is gone by now, the writes of fn must not make it again
	}
	tx.wrote = make(map[string]bool)
	tx.set = settings{mode: Exclusive, lockOptional: true, wait: s.set.wait}
	if s.m.cfg.locks == nil {
		tx.set.mode = optimistic
	}
	tx.held = s.held.addUser() // an Exclusive request holds the lock already
	return tx
}

func (s *state) runAndSave(ctx context.Context, fn func(context.Context, *Session) error) (err error, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		s.pending, s.stage = ordered.Map[sessionstore.Op]{}, begun
		s.release(ctx)
	}()
	if err := s.beginUse(ctx, false, ""); err != nil {
		return err, false
	}
	inside, leave := s.updateContext(ctx)
	defer leave()
	s.unlocked(func() { err = fn(inside, newSession(s, inside)) })
	switch {
	case s.Is(standing.Destroyed):
		return err, true
	case err != nil:
		return err, s.failure() == nil
	}
	return s.saveState(ctx), false
}

// An updating is what the context of the function of an Update knows: whose Update it is. That
// context has a func that returns it, as in carry.
type updating struct {
	m     *Manager
	root  *state
	key   string
	outer *updating
}

type updateKey struct{}

func updateIn(ctx context.Context) *updating {
	if u, ok := ctx.Value(updateKey{}).(func() *updating); ok {
		return u()
	}
	return nil
}

// inUpdate reports whether ctx comes from an Update of the same session. The caller holds s.mu.
func (s *state) inUpdate(ctx context.Context) bool {
	for u := updateIn(ctx); u != nil; u = u.outer {
		if u.m == s.m && (u.root == s.root() || u.key != "" && u.key == s.Key()) {
			return true
		}
	}
	return false
}

// insideLock is a context with the values of another one, which knows the session's lock. It does
// not end with the lock, because the conditions of the commit protect the session, too.
type insideLock struct {
	context.Context
	lock context.Context
}

func (c insideLock) Value(key any) any { return c.lock.Value(key) }

// updateContext returns the context for the function of an Update. With it, the Locker refuses to
// wait for the lock of this Update, even if a second Manager asks. The caller holds s.mu.
func (s *state) updateContext(ctx context.Context) (context.Context, context.CancelFunc) {
	u := &updating{s.m, s.root(), s.Key(), updateIn(ctx)}
	ctx = context.WithValue(ctx, updateKey{}, func() *updating { return u })
	if s.held == nil || s.held.join == nil {
		return ctx, func() {}
	}
	joined, leave := s.held.join(ctx)
	return insideLock{ctx, joined}, leave
}

// takeOver is called when an Update has ended. It adds the writes of tx, which is the state of the
// Update, to the view of s. Other values of the view stay as they were loaded.
func (s *state) takeOver(tx *state) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if s.Is(standing.Destroyed) || s.Abandoned() {
		return
	}
	if tx.Is(standing.Destroyed) {
		s.markDestroyed()
		return
	}
	if tx.ID() != "" && tx.ID() != s.ID() { // the tx made the session, or changed its id
		s.Move(tx.ID(), tx.Key())
		s.life = tx.life
	}
	if s.version == tx.base { // if not, another request changed the session between the two loads
		s.version, s.base = tx.version, tx.version
	}
	if tx.wrote[endKey] || tx.wrote[rememberKey] {
		// If tx has followed the session to a new id, this answer sends no cookie: see setCookie.
		s.life, s.newCookie = tx.life, s.newCookie || tx.newCookie && !tx.Is(standing.Followed)
	}
	for key := range tx.wrote {
		if v, ok := tx.values.Get(key); ok {
			s.noteStored(key, v)
		} else {
			s.noteRemoved(key)
		}
	}
}
