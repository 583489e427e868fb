package session

import (
	"context"
	"errors"
	"time"
)

// Update runs fn on the session as it is now, in a short exclusive section of
// its own, and saves at once what fn writes: also inside of a ReadOnly route,
// and after Commit, as streaming handlers need it. With a Locker other commits
// wait meanwhile. Should the session be changed all the same, fn runs again on
// the new state, so it must not do anything that cannot be repeated.
//
// If fn returns an error nothing is saved, and Update returns that. What the
// request itself has put and not committed is not seen by fn, and a key that
// both write is a conflict only if somebody else changed it. fn must use tx and
// not s.
func (s *Session) Update(ctx context.Context, fn func(tx *Session) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nobody {
		return ErrNoSession
	}
	if err := s.use(false); err != nil {
		return err
	}
	if s.frozen {
		return ErrMoved
	}
	if s.unlock != nil {
		return s.unlocked(func() error { return fn(s) }) // it is exclusive already
	}
	end := time.Now().Add(s.waitBound() + saveTime)
	for {
		err := s.updateOnce(ctx, fn)
		if !errors.Is(err, ErrConflict) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// unlocked calls f without s.mu, so that f may use s.
func (s *Session) unlocked(f func() error) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	return f()
}

func (s *Session) updateOnce(ctx context.Context, fn func(tx *Session) error) error {
	// By the id that this request knows: one from before Regenerate sees no
	// more here than it sees there.
	tx := &Session{m: s.m, ctx: ctx, started: s.started, deadline: s.deadline, sent: s.sent, begun: s.begun}
	tx.adopt(s.id)
	tx.set = settings{mode: exclusive, wait: s.set.wait}
	if s.m.cfg.locks == nil {
		tx.set.mode = optimistic
	}
	defer tx.drop()
	existed := s.key != ""
	var written []Op
	if err := s.unlocked(func() (err error) { written, err = tx.runAndSave(ctx, existed, fn); return err }); err != nil {
		return err
	}
	if s.key == "" && tx.key != "" {
		s.id, s.key, s.expires = tx.id, tx.key, tx.expires
	}
	// The request's own view stays what it loaded, with this on top.
	for _, op := range written {
		s.store(op.Key, tx.values[op.Key])
	}
	return nil
}

// runAndSave returns what fn wrote.
func (s *Session) runAndSave(ctx context.Context, existed bool, fn func(*Session) error) ([]Op, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(false); err != nil {
		return nil, err
	}
	if existed && s.key == "" {
		return nil, ErrDestroyed // and not made anew by what fn writes
	}
	if err := s.unlocked(func() error { return fn(s) }); err != nil {
		return nil, err
	}
	written := s.pending.ops
	return written, s.save(ctx)
}

// RegenerateOption configures a Regenerate.
type RegenerateOption interface{ applyRegenerate(*regeneration) }

type regeneration struct {
	grace   time.Duration
	forward bool
}

type regenerateOption func(*regeneration)

func (o regenerateOption) applyRegenerate(r *regeneration) { o(r) }

// Grace is for how long the old id may still be used; the default is
// DefaultGrace. 0 ends it at once.
func Grace(d time.Duration) RegenerateOption {
	return regenerateOption(func(r *regeneration) { r.grace = d })
}

// Forward makes the old id another name of the session for the time of grace.
// It is for ids that are changed now and then. Do not use it at a login: who
// knows the old id is logged in too.
func Forward() RegenerateOption { return regenerateOption(func(r *regeneration) { r.forward = true }) }

// Regenerate gives the session a new id, at once and in the store: at every
// login, and when rights change. What was put and not committed goes to the
// new id.
//
// For the time of grace the old id reads the session as it is now and writes
// nothing (ErrMoved), so that requests under way do not appear logged out and
// nobody who planted the old id gets in. Requests that had begun before still
// save what they write. With Forward the old id is as good as the new one.
func (s *Session) Regenerate(ctx context.Context, opts ...RegenerateOption) error {
	r := regeneration{grace: DefaultGrace}
	for _, o := range opts {
		o.applyRegenerate(&r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.use(true); err != nil {
		return err
	}
	if s.begun {
		return ErrClosed
	}
	if s.followed {
		return ErrMoved // the new id is not for whoever has the old one
	}
	if s.key == "" {
		return nil // the first commit makes a new id
	}
	if err := s.regenerate(ctx, r); err != nil {
		return s.fail(err)
	}
	return nil
}

func (s *Session) regenerate(ctx context.Context, r regeneration) error {
	if s.unlock == nil {
		unlock, err := s.lock(ctx, s.key, false)
		if err != nil {
			return err
		}
		defer unlock()
	}
	for range maxSwaps {
		done, err := s.moveOnce(ctx, r)
		if done || err != nil {
			return wrapStore(err)
		}
	}
	return &ConflictError{}
}

// moveOnce copies the session to a new id and then makes the old one a
// tombstone, if it is still what was copied.
func (s *Session) moveOnce(ctx context.Context, r regeneration) (bool, error) {
	rec, err := s.m.store.Load(ctx, s.key)
	if err != nil {
		return false, err
	}
	if rec.Moved.To != "" {
		return false, &MovedError{rec.Moved}
	}
	if s.set.mode == exclusive && !s.followed && rec.Version != s.version {
		return false, &ConflictError{}
	}
	id := s.m.cfg.ids.newID()
	key := s.m.cfg.ids.key(id)
	c := Change{Create: true, Deadline: rec.Deadline, TTL: s.m.ttl(rec.Deadline)}
	for _, f := range rec.Fields {
		c.Ops = append(c.Ops, Op{Kind: OpPut, Key: f.Key, Value: f.Value})
	}
	res, err := s.m.store.Commit(ctx, key, c)
	if err != nil {
		return false, err
	}
	err = s.leave(ctx, rec.Version, Moved{key, time.Now().Truncate(time.Millisecond), !r.forward}, r.grace)
	if definite(err) {
		s.m.remove(ctx, key)
		if errors.Is(err, ErrConflict) {
			err = nil // somebody saved meanwhile: once more
		}
		return false, err
	}
	// If it cannot be told whether the old id is a tombstone now, the new one
	// is the safe place to be.
	s.id, s.key, s.version = id, key, res.Version
	return true, err
}

// definite tells whether a commit certainly did nothing.
func definite(err error) bool {
	for _, known := range []error{ErrNotFound, ErrConflict, ErrMoved, ErrUnavailable, ErrRefused} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// leave turns the old id into a tombstone, which ends at once without grace.
func (s *Session) leave(ctx context.Context, version string, to Moved, grace time.Duration) error {
	c := Change{Version: version, Move: to, TTL: max(grace, time.Millisecond)}
	_, err := s.m.store.Commit(ctx, s.key, c)
	return err
}

// remove deletes what nobody may use any more; if that fails it lapses.
func (m *Manager) remove(ctx context.Context, key string) {
	if _, err := m.store.Delete(context.WithoutCancel(ctx), key); err != nil {
		m.cfg.logger.WarnContext(ctx, "session: a session left behind was not deleted", "error", err)
	}
}

// Destroy ends the session at once and in the store, and the client's cookie
// with the answer. Requests under way cannot save any more (ErrDestroyed), and
// what this one has put is dropped. Where programs other than padlock write
// the session, Destroy waits for the lock.
func (s *Session) Destroy(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if err := s.use(false); err != nil {
		return err
	}
	if s.key != "" {
		if err := s.destroy(ctx); err != nil {
			return s.fail(wrapStore(err))
		}
	}
	s.pending, s.ended = pendingOps{}, true
	s.values, s.order, s.size = nil, nil, 0
	s.release()
	s.m.event(Event{Kind: EventDestroyed})
	return nil
}

func (s *Session) destroy(ctx context.Context) error {
	if s.m.traits.CommitsNeedLock && s.unlock == nil {
		unlock, err := s.lock(ctx, s.key, false)
		if err != nil {
			return err
		}
		defer unlock()
	}
	// Where it went after this request loaded it, it is destroyed too. A
	// frozen id may not do that: it ends only itself.
	if s.frozen {
		_, err := s.m.store.Delete(ctx, s.m.cfg.ids.key(s.sent))
		return err
	}
	for range maxHops {
		moved, err := s.m.store.Delete(ctx, s.key)
		if err != nil || moved.To == "" {
			return err
		}
		s.key = moved.To
	}
	return nil
}
