package session

import (
	"context"
	"errors"
	"github.com/padlock-go/padlock/session/sessionstore"
	"time"

	"github.com/padlock-go/padlock/internal/ordered"
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
func (h *Session) Update(ctx context.Context, fn func(tx *Session) error) error {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == noManager {
		return ErrNoSession
	}
	end := time.Now().Add(s.waitBound() + saveTime)
	for {
		if err := s.beginUse(ctx, false); err != nil {
			return err
		}
		if s.standing == frozen {
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
func (s *state) updateOnce(ctx context.Context, fn func(tx *Session) error) (err error, own bool) {
	tx := s.newTx()
	s.unlocked(func() { err, own = tx.runAndSave(ctx, fn) })
	s.takeOver(tx)
	return err, own
}

// newTx returns the state for fn. It has the same id as the state of the request. If that is an old
// id from before a Regenerate, fn sees only what a client with the old id may see.
func (s *state) newTx() *state {
	tx := &state{m: s.m, started: s.started, deadline: s.deadline, prefetch: s.prefetch, parent: s, sent: s.sent}
	tx.adopt(s.id)
	if s.id == "" {
		tx.key = s.key // a session of UserSessions
	}
	if s.key != "" {
		tx.standing = reload // if the session is gone by now, the writes of fn must not make it again
	}
	tx.wrote = make(map[string]bool)
	tx.set = settings{mode: Exclusive, lockOptional: true, wait: s.set.wait}
	if s.m.cfg.locks == nil {
		tx.set.mode = optimistic
	}
	tx.held = s.held.addUser() // an Exclusive request holds the lock already
	return tx
}

func (s *state) runAndSave(ctx context.Context, fn func(*Session) error) (err error, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		s.pending, s.stage = ordered.Map[sessionstore.Op]{}, begun
		s.release(ctx)
	}()
	if err := s.beginUse(ctx, false); err != nil {
		return err, false
	}
	s.unlocked(func() { err = fn(newSession(s, ctx)) })
	switch {
	case s.standing == destroyed:
		return err, true
	case err != nil:
		return err, s.failure() == nil
	}
	return s.saveState(ctx), false
}

// takeOver is called when an Update has ended. It adds the writes of tx, which is the state of the
// Update, to the view of s. Other values of the view stay as they were loaded.
func (s *state) takeOver(tx *state) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if s.standing == destroyed || s.abandoned {
		return
	}
	if tx.standing == destroyed {
		s.markDestroyed()
		return
	}
	if tx.id != "" && tx.id != s.id { // the tx made the session, or changed its id
		s.adopt(tx.id)
		s.life = tx.life
		if s.standing == followed {
			s.standing = loaded
		}
	}
	if s.version == tx.base { // if not, another request changed the session between the two loads
		s.version, s.base = tx.version, tx.version
	}
	if tx.wrote[endKey] || tx.wrote[rememberKey] {
		s.life, s.newCookie = tx.life, s.newCookie || tx.newCookie
	}
	for key := range tx.wrote {
		if v, ok := tx.values.Get(key); ok {
			s.noteStored(key, v)
		} else {
			s.noteRemoved(key)
		}
	}
}
