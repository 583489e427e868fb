package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// beginUse checks whether the session may be used, and loads the session if it is not loaded. Each
// call that reads or writes the session begins with beginUse. The caller holds s.mu.
func (s *state) beginUse(ctx context.Context, write bool, key string) error {
	switch {
	case s.Abandoned():
		return ErrAbandoned
	case s.Failed() != nil:
		return s.Failed()
	case s.Is(standing.Destroyed):
		return ErrDestroyed
	case write && s.set.mode.readOnly():
		return ErrReadOnly
	case write && s.stage != open:
		if s.stage == begun {
			s.event(ctx, Event{Kind: EventLost, Key: key, Err: ErrClosed})
		}
		return ErrClosed
	}
	if !s.IsLoaded() {
		if err := s.load(ctx); err != nil {
			return s.fail(err)
		}
	}
	if write && s.Is(standing.Frozen) {
		return s.refuse(ErrMoved)
	}
	return nil
}

// maxHops bounds how many tombstones a request follows. A longer chain occurs only if the session
// got that many new ids in one grace period.
const maxHops = 16

var errLongChain = fmt.Errorf("%w: it got too many new ids in one grace period", ErrUnavailable)

// load reads the session. It takes the lock if the mode needs it.
func (s *state) load(ctx context.Context) error {
	s.touched = true
	start := time.Now()
	for more := s.Key() != ""; more; more = !s.IsLoaded() && s.nextID() {
		if err := s.loadLocked(ctx); err != nil {
			return err
		}
	}
	if !s.IsLoaded() {
		if s.Is(standing.Reload) {
			return ErrDestroyed // the writes of this request must not make the session again
		}
		s.release(ctx)
		s.None()
		s.keepRecord(sessionstore.Record{}) // the first write will make the session
	}
	s.event(ctx, Event{Kind: EventLoaded, Took: time.Since(start)})
	return nil
}

// loadLocked loads the record at s.Key(). There are two results without an error: the session is
// loaded, or the key is "", because there is no session.
func (s *state) loadLocked(ctx context.Context) error {
	if s.set.needsLock() && s.held == nil && s.stage == open {
		held, err := s.lock(ctx, s.Key())
		switch {
		case err == nil:
			s.held = held
		case s.set.lockOptional && s.canDoWithout(ctx, err):
			s.set.mode = optimistic
		default:
			return err
		}
	}
	rec, err := s.m.store.Load(ctx, s.Key())
	if err != nil || rec.Moved.To.Text() != "" {
		s.release(ctx)
	}
	switch {
	case errors.Is(err, ErrRefused) && s.m.cfg.discardUnreadable:
		s.event(ctx, Event{Kind: EventUnreadable, Err: err})
		s.seek("")
		return nil
	case errors.Is(err, sessionstore.ErrNotFound) || err == nil && s.m.tooOld(rec):
		s.release(ctx)
		s.seek("")
		return nil
	case err != nil:
		return err
	case rec.Moved.To.Text() != "":
		return s.loadMoved(ctx, rec)
	}
	s.Found()
	s.keepRecord(rec)
	s.prolong(ctx, rec)
	return nil
}

// prolong starts the session's idle time again, if at least a tenth of the idle time has passed
// since the last start. If the store fails, the session may end too early, but the next request
// tries again. Other programs prolong a session, and change its id, without the index of users. So
// prolong notes their sessions each time.
func (s *state) prolong(ctx context.Context, rec sessionstore.Record) {
	want := s.m.ttl(s.life)
	old := want > 0 && (rec.TTL == 0 || rec.TTL < want-s.m.cfg.idle/10)
	var err error
	if old || s.m.traits.CommitsNeedLock {
		err = s.noteUser(ctx, s.Key(), nil)
	}
	if old && err == nil {
		err = s.m.store.Touch(ctx, s.Key(), want)
	}
	if err != nil {
		s.m.cfg.logger.WarnContext(ctx, "session: the idle time was not prolonged", "error", err)
	}
}

// loadMoved handles an id from before Regenerate. A tombstone counts only while the session that it
// points to lives. So when the session is destroyed under its new id, the old id ends too.
func (s *state) loadMoved(ctx context.Context, rec sessionstore.Record) error {
	s.event(ctx, Event{Kind: EventOldID})
	alive, err := s.m.alive(ctx, rec.Moved.To.Text())
	if err != nil {
		return err
	}
	old := !s.started.Before(rec.Moved.At)
	switch {
	case alive == "":
		s.seek("")
		return nil
	case old && s.hasIDOf(alive):
		return s.loadLocked(ctx)
	}
	s.keepRecord(rec)
	// A request that began before the id was changed may still write. The result is the same as if
	// the request had written just before the change: Regenerate would have copied the data.
	if old {
		s.Freeze(rec.Moved.To.Text())
	} else {
		s.Follow(rec.Moved.To.Text())
	}
	return nil
}
