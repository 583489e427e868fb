package session

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Commit saves the session before the answer begins and gives its lock back:
// for handlers that go on working, or stream. Reading still works afterwards,
// and so does Update; other writes answer ErrClosed. The second Commit returns
// what the first did.
func (s *Session) Commit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abandoned {
		return ErrAbandoned
	}
	return s.save(ctx)
}

// save commits what is pending and closes the session. s.mu is held.
func (s *Session) save(ctx context.Context) error {
	if s.saved || s.abandoned {
		return s.failure()
	}
	s.saved = true
	defer s.release()
	if err := s.failure(); err != nil {
		return err
	}
	s.reportInPlace()
	if len(s.pending.ops) == 0 || s.ended {
		return nil
	}
	_, err := s.commit(ctx, s.pending.ops)
	return err
}

// failure is what replaces the answer.
func (s *Session) failure() error {
	switch {
	case s.abandoned:
		return nil
	case s.failed == nil && s.moved:
		return ErrMoved // a write was refused; reading still works
	}
	return s.failed
}

// now does an op at once, together with what is pending for its key, and
// returns its value.
func (s *Session) now(op Op) ([]byte, error) {
	if err := s.m.checkKey(op.Key); err != nil {
		return nil, err
	}
	if err := s.use(true); err != nil {
		return nil, err
	}
	var ops []Op
	if p := s.pending.get(op.Key); p != nil {
		ops = append(ops, *p)
	} else if _, ok := s.values[op.Key]; op.Kind == OpTake && !ok {
		return nil, nil // it was not there when the request began
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.waitBound()+saveTime)
	defer cancel()
	res, err := s.commit(ctx, append(ops, op))
	if err != nil {
		return nil, err
	}
	return res.Values[len(ops)], nil
}

// commit makes ops true in the store, under the lock if there are locks, and
// here. Its failure is the session's, except for ErrNotNumber. s.mu is held.
func (s *Session) commit(ctx context.Context, ops []Op) (Result, error) {
	ops = slices.Clone(ops)
	start := time.Now()
	res, err := s.commitStore(ctx, ops)
	s.m.event(Event{Kind: EventSaved, Took: time.Since(start), Err: err})
	if errors.Is(err, ErrNotNumber) || errors.Is(err, ErrClosed) {
		return res, err
	}
	if err != nil {
		return res, s.fail(err)
	}
	s.version = res.Version
	s.pending.remove(ops)
	for i, op := range ops {
		switch op.Kind {
		case OpPut:
			s.store(op.Key, op.Value)
		case OpIncr:
			s.store(op.Key, res.Values[i])
		default:
			s.store(op.Key, nil)
		}
	}
	return res, nil
}

func (s *Session) commitStore(ctx context.Context, ops []Op) (Result, error) {
	if s.key == "" {
		return s.create(ctx, ops)
	}
	for range maxHops {
		res, err := s.commitLocked(ctx, ops)
		var moved *MovedError
		if !errors.As(err, &moved) {
			return res, wrapStore(err)
		}
		// The id was changed since this request loaded the session. It goes
		// along, on condition that what it read is still so there.
		s.release()
		s.key, s.followed = moved.Moved.To, true
	}
	return Result{}, ErrMoved
}

func (s *Session) commitLocked(ctx context.Context, ops []Op) (Result, error) {
	if s.unlock == nil && (s.set.mode != lastWriteWins || s.m.traits.CommitsNeedLock) {
		unlock, err := s.lock(ctx, s.key, false)
		if err != nil {
			return Result{}, err
		}
		defer unlock()
	}
	c := Change{Ops: ops, TTL: s.m.ttl(s.expires)}
	s.conditions(&c)
	return s.m.store.Commit(ctx, s.key, c)
}

// conditions are what must still be so, by the mode.
func (s *Session) conditions(c *Change) {
	switch {
	case s.set.mode == lastWriteWins:
		return
	case s.set.mode >= optimistic || s.set.mode == exclusive && !s.followed:
		c.Version = s.version
		return
	}
	keys := make(map[string]bool)
	for _, op := range c.Ops {
		if s.read[op.Key] || s.readAll || s.followed && op.Kind == OpTake {
			keys[op.Key] = true
		}
	}
	watched := s.watched
	if s.set.mode == exclusive { // and followed: all that it saw is still so
		watched = s.read
	}
	for k := range watched {
		keys[k] = true
	}
	if s.readAll && s.set.mode == exclusive {
		for k := range s.values {
			keys[k] = true
		}
	}
	for k := range keys {
		v, ok := s.values[k]
		c.Unchanged = append(c.Unchanged, Condition{Key: k, Absent: !ok, Value: v})
	}
}

// create makes the session under a new id, which nobody else knows: it needs
// no lock.
func (s *Session) create(ctx context.Context, ops []Op) (Result, error) {
	if s.begun {
		return Result{}, ErrClosed // the client could not be told
	}
	id := s.m.cfg.ids.newID()
	c := Change{Create: true, Ops: ops, Deadline: s.m.newDeadline()}
	c.TTL = s.m.ttl(c.Deadline)
	res, err := s.m.store.Commit(ctx, s.m.cfg.ids.key(id), c)
	if err != nil {
		return res, wrapStore(err)
	}
	s.adopt(id)
	s.expires = c.Deadline
	s.m.event(Event{Kind: EventCreated})
	return res, nil
}

// wrapStore turns a store's answer into what a handler is told. What is no
// answer leaves the outcome open.
func wrapStore(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNotFound) {
		return ErrDestroyed
	}
	for _, known := range []error{
		ErrConflict, ErrMoved, ErrNotNumber, ErrBusy, ErrTooManyWaiters, ErrUnavailable, ErrTooLarge, ErrKey, ErrRefused,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return both(ErrUnsaved, err)
}
