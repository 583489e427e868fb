package session

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Destroy ends the session in the store at once, and deletes the client's cookie with the answer.
// Requests under way can no longer save (ErrDestroyed), and the unsaved writes of this request are
// dropped. Destroy can also end a session that cannot be read (ErrRefused).
//
// Destroy waits for the session's lock only if other programs write the sessions
// (sessionstore.Traits.CommitsNeedLock). Otherwise it ends the session even if another request
// holds the lock.
//
// After Regenerate, a client with the old id cannot end the session with the new id. For such a
// client, Destroy ends the old id, and deletes the client's cookie.
func (h *Session) Destroy(ctx context.Context) error {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.m == noManager:
		return ErrNoSession
	case s.Abandoned():
		return ErrAbandoned
	case s.Is(standing.Destroyed):
		return nil
	}
	s.touched = true
	if err := s.destroy(ctx); err != nil {
		return s.fail(wrapStore(err))
	}
	s.Recover()
	if s.release(ctx); s.Failed() != nil {
		return s.Failed() // the lock had ended, so another program may have written the session again
	}
	s.markDestroyed()
	s.event(ctx, Event{Kind: EventDestroyed})
	return nil
}

// destroy deletes the session. If the session has moved since this request loaded it, destroy
// deletes it at its new key too. It needs the lock only if commits need it, and it never reads the
// values.
func (s *state) destroy(ctx context.Context) error {
	key, old := s.Key(), s.Is(standing.Frozen)
	for more := key != "" && !s.IsLoaded(); more; more = key == "" && s.nextID() {
		var err error
		if key, old, err = s.find(ctx); err != nil {
			return err
		}
	}
	if old {
		_, err := s.m.store.Delete(ctx, s.m.rules.Key(s.ID())) // the tombstone
		return err
	}
	for key != "" { // each round removes one tombstone, until the session itself is removed
		next, err := s.deleteAt(ctx, key)
		if err != nil {
			return err
		}
		key = next
	}
	return nil
}

// deleteAt removes what is at key, under the lock if commits need it. If that was a tombstone,
// deleteAt returns the key to which it pointed.
func (s *state) deleteAt(ctx context.Context, key string) (string, error) {
	var moved sessionstore.Moved
	drop := func() (err error) {
		moved, err = s.m.store.Delete(ctx, key)
		return err
	}
	lock := func(_ context.Context, _ string, f func() error) error { return f() }
	if s.m.traits.CommitsNeedLock {
		lock = s.underLock
	}
	if err := lock(ctx, key, drop); err != nil {
		return "", err
	}
	if moved.To.Text() != "" {
		s.release(ctx) // the lock belongs to the old key
	}
	return moved.To.Text(), nil
}

// find returns the key at which the session is now, or "" if there is none. oldID is true if the
// client sent an id from before Regenerate. With such an id, a client cannot end the session. find
// succeeds even if the data are unreadable.
func (s *state) find(ctx context.Context) (key string, oldID bool, err error) {
	rec, err := s.m.store.Load(ctx, s.Key())
	switch {
	case errors.Is(err, sessionstore.ErrNotFound):
		return "", false, nil
	case errors.Is(err, ErrRefused) || err == nil && rec.Moved.To.Text() == "":
		return s.Key(), false, nil
	case err != nil:
		return "", false, err
	}
	alive, err := s.m.alive(ctx, rec.Moved.To.Text())
	if err != nil || alive == "" {
		return s.Key(), false, err // the tombstone leads to no session
	}
	old := !s.started.Before(rec.Moved.At)
	if old && s.hasIDOf(alive) {
		return s.Key(), false, nil
	}
	return rec.Moved.To.Text(), old, nil
}
