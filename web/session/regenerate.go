package session

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// GracePeriod says how long the old id may still be used after Regenerate. Without it, that is
// DefaultGrace. With 0 the old id ends at once, and requests under way get 409 when they write.
type GracePeriod time.Duration

// Regenerate gives the session a new id in the store at once. Call it at every login, and whenever
// the user's rights change. Unsaved writes go to the new id. The client gets the new id with the
// answer, even if the answer is an error. If the handler panics, the client gets the new id only if
// an outer handler answers.
//
// During the grace period, a request with the old id reads the session as it was before and cannot
// write (ErrMoved). So a request that the client had already sent is still logged in. But a client
// that knows only the old id never gets the new id, and never sees the session as it is now.
//
// A login works with the old id, too: if the answer with the new id was lost, Regenerate begins a
// new, empty session for the client.
//
// If the store confirms nothing, Regenerate asks again for 5 s. After an error, writes of requests
// that began before may be lost.
//
// A request that began before Regenerate may still save its writes, if the values that it had read
// are unchanged. The writes go into the session with the new id. If such a request calls
// Regenerate, as the second login of a double click does, the session keeps its new id, and the
// client gets that id with the answer to the first request. The clocks of the servers decide
// whether a request began before Regenerate. GracePeriod(0) refuses all requests with the old id,
// even those that began before Regenerate.
func (h *Session) Regenerate(ctx context.Context, grace ...GracePeriod) error {
	s, _ := h.open()
	period := DefaultGrace
	for _, g := range grace {
		period = time.Duration(g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parent == nil && s.stage == open && !s.set.mode.readOnly() {
		if err := s.beginUse(ctx, false, ""); err != nil {
			return err
		}
		if s.Is(standing.Frozen) {
			s.restart()
			return nil
		}
	}
	if err := s.beginUse(ctx, true, ""); err != nil {
		return err
	}
	if s.answered() {
		return ErrClosed
	}
	if s.Is(standing.Followed) {
		return nil // the session has just got a new id, which a client with the old one does not get
	}
	if s.Is(standing.Absent) {
		return nil // the first commit makes a new id
	}
	err := s.regenerate(ctx, period)
	var moved *sessionstore.MovedError
	switch {
	case errors.As(err, &moved) && s.parent == nil: // another request was faster
		s.release(ctx)
		s.Follow(moved.Moved.To.Text())
		return nil
	case moved != nil:
		return s.fail(ErrMoved) // a MovedError has the new key
	case err != nil:
		return s.fail(err)
	}
	return nil
}

// restart begins a new, empty session. The first commit makes its id.
func (s *state) restart() {
	s.clearView()
	s.None()
	s.keepRecord(sessionstore.Record{})
}

// answered reports whether the answer to the request has begun.
func (s *state) answered() bool {
	of := s.root()
	if of != s {
		of.mu.Lock()
		defer of.mu.Unlock()
	}
	return of.stage == begun
}

// regenerate moves the session to a new id. In an Update, regenerate also stores the new id in the
// state of the request, because the answer to the request sends the cookie.
func (s *state) regenerate(ctx context.Context, grace time.Duration) error {
	if of := s.root(); of != s {
		of.mu.Lock()
		defer of.mu.Unlock()
		if of.stage == begun {
			return ErrClosed
		}
		defer func() {
			if s.ID() != of.ID() {
				of.Move(s.ID(), s.Key())
			}
		}()
	}
	done, key := false, s.Key()
	err := s.underLock(ctx, key, func() (err error) {
		for try := 0; try < maxMoves && !done && err == nil; try++ {
			done, err = s.moveOnce(ctx, grace)
		}
		return err
	})
	if err == nil && !done {
		err = &sessionstore.ConflictError{}
	}
	return wrapStore(err)
}

// maxMoves bounds how often a move is tried again. A try fails only if another request has saved
// the session meanwhile.
const maxMoves = 1000

// moveOnce copies the session to a new id. Then it replaces the old session by a tombstone, unless
// the old session has changed since it was copied.
func (s *state) moveOnce(ctx context.Context, grace time.Duration) (bool, error) {
	rec, err := s.m.store.Load(ctx, s.Key())
	if err != nil {
		return false, err
	}
	if rec.Moved.To.Text() != "" {
		return false, &sessionstore.MovedError{Moved: rec.Moved}
	}
	if s.set.mode == Exclusive && !s.Is(standing.Followed) && rec.Version != s.version {
		return false, &sessionstore.ConflictError{}
	}
	id := s.m.rules.NewID()
	key := s.m.rules.Key(id)
	c := sessionstore.Change{Create: true, Deadline: rec.Deadline, TTL: s.m.ttl(s.m.lifeOf(rec))}
	for _, f := range rec.Fields {
		c.Ops = append(c.Ops, sessionstore.Op{Kind: sessionstore.OpPut, Key: f.Key, Value: f.Value})
	}
	if err := s.m.note(ctx, s.m.userIn(rec), key, s.m.lifeOf(rec)); err != nil {
		return false, err
	}
	res, err := s.m.store.Commit(ctx, key, c)
	if err != nil {
		return false, err
	}
	err = s.leaveTombstone(ctx, rec.Version, sessionstore.Moved{To: sessionstore.KeyOf(key), At: time.Now().Truncate(time.Millisecond)}, grace)
	if isDefinite(err) {
		s.m.remove(ctx, key)
		if errors.Is(err, ErrConflict) {
			err = nil // another request saved meanwhile: try again
		}
		return false, err
	}
	// The session at the new id is complete, even if the tombstone at the old id may not have been
	// written.
	s.Move(id, key)
	s.version = res.Version
	return true, err
}

// isDefinite reports whether err means that a commit certainly changed nothing.
func isDefinite(err error) bool {
	for _, known := range []error{sessionstore.ErrNotFound, ErrConflict, ErrMoved, ErrUnavailable, ErrRefused} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// moveAgain is the pause before a tombstone is sent again.
const moveAgain = 50 * time.Millisecond

// leaveTombstone turns the old id into a tombstone. If grace is 0, the tombstone ends at once.
//
// While its outcome is not known, requests with the old id may save writes there, which the new id
// does not have. So the same tombstone is sent again until the outcome is known, for at most
// saveTime.
func (s *state) leaveTombstone(ctx context.Context, version string, to sessionstore.Moved, grace time.Duration) error {
	c := sessionstore.Change{Version: version, Move: to, TTL: max(grace, time.Millisecond)}
	first := time.Now()
	_, err := s.m.store.Commit(ctx, s.Key(), c)
	if err == nil || isDefinite(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	for {
		select {
		case <-time.After(moveAgain):
		case <-ctx.Done():
			return err
		}
		_, again := s.m.store.Commit(ctx, s.Key(), c)
		var moved *sessionstore.MovedError
		switch {
		case again == nil || errors.As(again, &moved) && moved.Moved.To.Text() == to.To.Text():
			return nil
		case errors.Is(again, sessionstore.ErrNotFound) && (time.Since(first) >= grace || s.m.traits.CommitsNeedLock):
			return err // the tombstone may have ended; or the move has only begun, and Destroy waits for its lock
		case isDefinite(again) && !errors.Is(again, ErrUnavailable):
			return again
		}
	}
}

// remove deletes a copy of a session. No client knows the id of the copy. If the store fails, the
// copy stays until it expires.
func (m *Manager) remove(ctx context.Context, key string) {
	if _, err := m.store.Delete(context.WithoutCancel(ctx), key); err != nil {
		m.cfg.logger.WarnContext(ctx, "session: a session left behind was not deleted", "error", err)
	}
}
