package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Commit saves the session and releases its lock before the answer begins. Use it in a handler that
// streams its answer, or that has more work to do after its last write. After Commit, reading and
// Update still work; other writes return ErrClosed. A second Commit returns the same as the first.
//
// If a write of the request was refused, Commit saves nothing and returns the error of that write.
// The handler can then call IgnoreRefused and Commit again.
func (h *Session) Commit(ctx context.Context) error {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Abandoned() {
		return ErrAbandoned
	}
	return s.saveState(ctx)
}

// saveState commits the pending ops and closes the session. The caller holds s.mu.
func (s *state) saveState(ctx context.Context) error {
	if s.stage != open || s.Abandoned() {
		return s.failure()
	}
	s.stage = saved
	err := s.saveHeld(ctx)
	if errors.Is(err, ErrClosed) {
		s.stage = open // the answer began while Commit waited; the writer of the answer will save the session
		return err
	}
	if err != nil && s.Refused() != nil {
		s.stage = open // nothing was saved; after IgnoreRefused, the other writes can still be saved
		return err
	}
	s.release(ctx)
	if err == nil {
		err = s.failure() // release sets this error if the lock was lost
	}
	return err
}

func (s *state) saveHeld(ctx context.Context) error {
	if err := s.failure(); err != nil {
		return err
	}
	s.reportInPlace(ctx)
	if s.pending.Len() == 0 || s.Is(standing.Destroyed) {
		return nil
	}
	if !s.IsLoaded() { // the mode was changed by With, and the session was not used since
		if err := s.load(ctx); err != nil {
			return s.fail(err)
		}
	}
	ops, puts := s.ops()
	if s.Is(standing.Absent) && !puts {
		return nil // Delete alone makes no session
	}
	_, err := s.commit(ctx, ops)
	return err
}

// s.applyNow applies an op in the store at once, together with the pending op of its key, and
// returns the key's value.
func (s *state) applyNow(ctx context.Context, op sessionstore.Op) ([]byte, error) {
	if err := s.beginUse(ctx, true, op.Key); err != nil {
		return nil, err
	}
	if err := s.m.checkKey(op.Key); err != nil {
		return nil, s.refuse(err)
	}
	if _, there := s.valueOf(op.Key); op.Kind == sessionstore.OpIncr && !there && s.size+len(op.Key) >= s.m.cfg.maxSize {
		return nil, s.refuse(fmt.Errorf("%w: there is no room for %q, at most %d bytes are allowed", ErrTooLarge, op.Key, s.m.cfg.maxSize))
	}
	var ops []sessionstore.Op
	if p, ok := s.pending.Get(op.Key); ok {
		ops = append(ops, p)
	} else if op.Kind == sessionstore.OpTake && !s.values.Has(op.Key) {
		return nil, nil // the key did not exist when the request began
	}
	ctx, cancel := context.WithTimeout(ctx, s.waitBound()+saveTime)
	defer cancel()
	res, err := s.commit(ctx, append(ops, op))
	if err != nil {
		return nil, err
	}
	return res.Values[len(ops)], nil
}

// commit applies ops to the session in the store, and then to the copy of the session in s. If the
// Manager uses locks, the session's lock is held meanwhile. After an error, all further calls fail,
// unless the error only means that the ops were refused. The caller holds s.mu.
func (s *state) commit(ctx context.Context, ops []sessionstore.Op) (sessionstore.Result, error) {
	start := time.Now()
	res, err := s.commitStore(ctx, ops)
	s.event(ctx, Event{Kind: EventSaved, Took: time.Since(start), Err: err})
	switch {
	case errors.Is(err, ErrNotNumber):
		return res, err // Incr returns no number then, so its caller cannot overlook the error
	case errors.Is(err, ErrTooLarge) || errors.Is(err, ErrKey):
		return res, s.refuse(err)
	case err != nil:
		return res, s.fail(err)
	}
	s.version = res.Version
	for i, op := range ops {
		if s.wrote != nil {
			s.wrote[op.Key] = true
		}
		s.noteCommitted(op, res.Values[i])
	}
	return res, nil
}

func (s *state) commitStore(ctx context.Context, ops []sessionstore.Op) (sessionstore.Result, error) {
	if s.Is(standing.Absent) {
		return s.create(ctx, ops)
	}
	for range maxHops {
		res, err := s.commitLocked(ctx, ops)
		var moved *sessionstore.MovedError
		if !errors.As(err, &moved) {
			return res, wrapStore(err)
		}
		// The id was changed since this request loaded the session. The commit goes to the new id,
		// on condition that the values which the request read are unchanged.
		s.release(ctx)
		s.Follow(moved.Moved.To.Text())
	}
	return sessionstore.Result{}, ErrMoved
}

// addConditions adds to c the conditions that the mode requires.
func (s *state) addConditions(c *sessionstore.Change) {
	switch whole := s.set.mode.dependsOnAll(); {
	case s.set.mode == LastWriteWins:
	case whole && !s.Is(standing.Followed):
		c.Version = s.version
		c.Unchanged = s.unchangedEarlier(c, nil)
	default:
		c.Unchanged = s.conditionsFor(c, whole, s.Is(standing.Followed))
	}
}

func (s *state) commitLocked(ctx context.Context, ops []sessionstore.Op) (res sessionstore.Result, err error) {
	c := sessionstore.Change{Ops: ops, TTL: s.m.ttl(s.life), MaxSize: s.m.cfg.maxSize}
	s.addConditions(&c)
	err = s.underLock(ctx, s.Key(), func() (err error) {
		if err = s.noteUser(ctx, s.Key(), ops); err == nil {
			res, err = s.m.store.Commit(ctx, s.Key(), c)
		}
		return err
	})
	return res, err
}

// create makes the session under a new id. No other request knows that id, so create needs no lock.
// In an Update, create also stores the new id in the state of the request. So if two goroutines of
// one request call create, only one of them makes a session.
func (s *state) create(ctx context.Context, ops []sessionstore.Op) (sessionstore.Result, error) {
	r := s.root()
	if r != s {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	switch {
	case r.stage == begun:
		return sessionstore.Result{}, ErrClosed // it is too late to send the id to the client
	case r.Is(standing.Destroyed):
		return sessionstore.Result{}, ErrDestroyed
	case r.Abandoned():
		return sessionstore.Result{}, ErrAbandoned
	case r.Key() != "":
		return sessionstore.Result{}, &sessionstore.ConflictError{} // another goroutine made the session first: try again
	}
	id := s.m.rules.NewID()
	key := s.m.rules.Key(id)
	c := sessionstore.Change{Create: true, Ops: ops, Deadline: s.m.newDeadline(), MaxSize: s.m.cfg.maxSize}
	if s.life.deadline.IsZero() {
		s.life.deadline = c.Deadline
	}
	c.TTL = s.m.ttl(s.life)
	if err := s.noteUser(ctx, key, ops); err != nil {
		return sessionstore.Result{}, err
	}
	res, err := s.m.store.Commit(ctx, key, c)
	if err != nil {
		return res, wrapStore(err)
	}
	for _, of := range []*state{s, r} {
		of.Move(id, key)
		of.life = s.life
	}
	s.event(ctx, Event{Kind: EventCreated})
	return res, nil
}
