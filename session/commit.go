package session

import (
	"context"
	"errors"
	"fmt"
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
	err := s.saveHeld(ctx)
	if errors.Is(err, ErrClosed) {
		s.saved = false // the answer begins while Commit waits: it is saved with the answer
		return err
	}
	s.release()
	if err == nil {
		err = s.failure() // the lock may turn out to be lost
	}
	return err
}

func (s *Session) saveHeld(ctx context.Context) error {
	if err := s.failure(); err != nil {
		return err
	}
	s.reportInPlace()
	if s.pending.len() == 0 || s.ended {
		return nil
	}
	if !s.loaded { // the mode changed since, and nothing was asked of it
		if err := s.load(ctx); err != nil {
			return s.fail(err)
		}
	}
	if s.key == "" && !s.puts() {
		return nil // no session is made to delete something from it
	}
	ops := make([]Op, 0, s.pending.len())
	for _, op := range s.pending.all() {
		ops = append(ops, op)
	}
	_, err := s.commit(ctx, ops)
	return err
}

// puts reports whether a Put waits for the commit.
func (s *Session) puts() bool {
	for _, op := range s.pending.all() {
		if op.Kind == OpPut {
			return true
		}
	}
	return false
}

// failure is what replaces the answer.
func (s *Session) failure() error {
	switch {
	case s.abandoned:
		return nil
	case s.failed != nil:
		return s.failed
	case s.ended:
		return nil // what was refused concerns a session that is no more
	}
	return s.refused
}

// now does an op at once, together with what is pending for its key, and
// returns its value.
func (s *Session) now(op Op) ([]byte, error) {
	if err := s.use(true); err != nil {
		return nil, err
	}
	if err := s.m.checkKey(op.Key); err != nil {
		return nil, s.refuse(err)
	}
	if _, there := s.view(op.Key); op.Kind == OpIncr && !there && s.size+len(op.Key) >= s.m.cfg.maxSize {
		return nil, s.refuse(fmt.Errorf("%w: there is no room for %q, at most %d bytes are allowed", ErrTooLarge, op.Key, s.m.cfg.maxSize))
	}
	var ops []Op
	if p, ok := s.pending.get(op.Key); ok {
		ops = append(ops, p)
	} else if op.Kind == OpTake && !s.values.has(op.Key) {
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
// here. Its failure is the session's, unless the ops themselves were refused.
// s.mu is held.
func (s *Session) commit(ctx context.Context, ops []Op) (Result, error) {
	start := time.Now()
	res, err := s.commitStore(ctx, ops)
	s.event(Event{Kind: EventSaved, Took: time.Since(start), Err: err})
	switch {
	case errors.Is(err, ErrNotNumber):
		return res, err // the caller of Incr gets no number, and cannot overlook that
	case errors.Is(err, ErrTooLarge) || errors.Is(err, ErrKey):
		return res, s.refuse(err)
	case err != nil:
		return res, s.fail(err)
	}
	s.version = res.Version
	for i, op := range ops {
		s.pending.delete(op.Key)
		s.earlier.forget(op.Key)
		if s.done != nil {
			s.done[op.Key] = true
		}
		switch op.Kind {
		case OpPut:
			s.store(op.Key, op.Value)
		case OpIncr:
			s.store(op.Key, res.Values[i])
		default:
			s.unstore(op.Key)
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

func (s *Session) commitLocked(ctx context.Context, ops []Op) (res Result, err error) {
	c := Change{Ops: ops, TTL: s.m.ttl(s.expires), MaxSize: s.m.cfg.maxSize}
	s.conditions(&c)
	err = s.underLock(ctx, s.key, func() (err error) {
		res, err = s.m.store.Commit(ctx, s.key, c)
		return err
	})
	return res, err
}

// conditions are what must still be so, by the mode.
func (s *Session) conditions(c *Change) {
	keys := make(map[string]bool)
	switch {
	case s.set.mode == lastWriteWins:
		return
	case s.set.whole() && !s.followed:
		c.Version = s.version
	case s.set.whole(): // all that it saw is still so, in the session that it followed
		for k := range s.read {
			keys[k] = true
		}
		if s.readAll {
			for k := range s.values.all() {
				keys[k] = true
			}
		}
		s.written(c, keys)
	default:
		for k := range s.watched {
			keys[k] = true
		}
		s.written(c, keys)
	}
	s.conditionsEarlier(c, keys)
	for k := range keys {
		v, ok := s.values.get(k)
		c.Unchanged = append(c.Unchanged, Condition{Key: k, Absent: !ok, Value: v})
	}
}

// written adds the keys that c writes and that this request has read.
func (s *Session) written(c *Change, keys map[string]bool) {
	for _, op := range c.Ops {
		if s.read[op.Key] || s.readAll || s.followed && op.Kind == OpTake {
			keys[op.Key] = true
		}
	}
}

// conditionsEarlier adds what was read before the session was loaded again,
// instead of what was loaded then.
func (s *Session) conditionsEarlier(c *Change, keys map[string]bool) {
	add := func(key string) {
		if was, ok := s.earlier.at(key); ok {
			c.Unchanged = append(c.Unchanged, was)
			delete(keys, key)
		}
	}
	for _, op := range c.Ops {
		add(op.Key)
	}
	for k := range s.watched {
		add(k)
	}
}

// create makes the session under a new id, which nobody else knows: it needs
// no lock. The tx of an Update makes it for the request too, so that no two
// goroutines make one each.
func (s *Session) create(ctx context.Context, ops []Op) (Result, error) {
	r := s.request()
	if r != s {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	switch {
	case r.begun:
		return Result{}, ErrClosed // the client could not be told
	case r.ended:
		return Result{}, ErrDestroyed
	case r.abandoned:
		return Result{}, ErrAbandoned
	case r.key != "":
		return Result{}, &ConflictError{} // another goroutine was faster: once more
	}
	id := s.m.cfg.ids.newID()
	c := Change{Create: true, Ops: ops, Deadline: s.m.newDeadline(), MaxSize: s.m.cfg.maxSize}
	c.TTL = s.m.ttl(c.Deadline)
	res, err := s.m.store.Commit(ctx, s.m.cfg.ids.key(id), c)
	if err != nil {
		return res, wrapStore(err)
	}
	for _, of := range []*Session{s, r} {
		of.adopt(id)
		of.existed, of.expires = true, c.Deadline
	}
	s.event(Event{Kind: EventCreated})
	return res, nil
}

// request is the session of the request: s, or that in which s is the tx of an
// Update.
func (s *Session) request() *Session {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// wrapStore turns a store's error into the one that a handler gets. An error
// that is none of the known ones leaves the outcome open.
func wrapStore(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNotFound) {
		return ErrDestroyed
	}
	for _, known := range []error{
		ErrConflict, ErrMoved, ErrNotNumber, ErrBusy, ErrTooManyWaiters, ErrUnavailable, ErrTooLarge, ErrKey, ErrRefused,
		ErrUnsaved, ErrClosed,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return both(ErrUnsaved, err)
}
