package session

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Session is one request's view of a session. It is loaded at its first use;
// what other requests save after that is not seen. Its methods are safe for
// concurrent use by the goroutines of the request.
//
// Methods without a context use that of the request. When one of them returns
// an error of the store or of the lock, so do all later ones, and the answer is
// replaced, unless it is an error anyway: see Abandon.
type Session struct {
	m        *Manager
	ctx      context.Context
	started  time.Time
	deadline time.Time // of the answer; zero: none

	mu      sync.Mutex // held during requests to the store too
	set     settings
	sent    string // the id that the client has
	id      string // the session's; "" while there is none, or where it is not known
	key     string // in the store; "" while there is none
	touched bool   // something was asked of it
	loaded  bool
	unlock  func() // nil: the lock is not held
	failed  error  // of the store or the lock

	version  string
	expires  time.Time         // end of the absolute lifetime
	values   map[string][]byte // as loaded, and as this request saved them since
	order    []string          // of the keys in values
	pending  pendingOps
	read     map[string]bool
	readAll  bool
	watched  map[string]bool
	handed   []handedOut
	size     int
	frozen   bool // an old id, that may not write
	moved    bool // and tried to
	followed bool // the version is that of the old id: compare what was read instead

	saved     bool // closed for writes
	begun     bool // the answer has begun: no cookie any more
	ended     bool // by Destroy
	abandoned bool
}

// handedOut is a value that Development watches.
type handedOut struct {
	key   string
	value any
	was   string
}

// newSession reads the cookie and nothing else.
func (m *Manager) newSession(r *http.Request, set settings) *Session {
	s := &Session{m: m, ctx: r.Context(), started: time.Now(), set: set}
	s.deadline = deadlineOf(r, s.started)
	s.adopt(m.idFrom(r))
	s.sent = s.id
	return s
}

// adopt makes id the session's.
func (s *Session) adopt(id string) {
	s.id, s.key = id, ""
	if id != "" {
		s.key = s.m.cfg.ids.key(id)
	}
}

// setMode changes the mode of a request under way. What was loaded without the
// lock is old once the lock is there, so it is loaded again.
func (s *Session) setMode(set settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	if s.set.needsLock() && s.loaded && s.unlock == nil && s.key != "" && !s.saved {
		s.loaded = false
	}
}

// use is the beginning of every call: it finds out whether the session may be
// used, and loads it. s.mu is held.
func (s *Session) use(write bool) error {
	switch {
	case s.abandoned:
		return ErrAbandoned
	case s.failed != nil:
		return s.failed
	case s.ended:
		return ErrDestroyed
	case write && s.set.mode == readOnly:
		return ErrReadOnly
	case write && s.saved:
		if s.begun {
			s.m.event(Event{Kind: EventLost, Err: ErrClosed})
		}
		return ErrClosed
	}
	if !s.loaded {
		if err := s.load(s.ctx); err != nil {
			return s.fail(err)
		}
	}
	if write && s.frozen {
		s.moved = true
		return ErrMoved
	}
	return nil
}

func (s *Session) fail(err error) error {
	s.failed = err
	return err
}

// maxHops bounds how often an id may have been changed during its grace.
const maxHops = 16

// load reads the session, under the lock where the mode wants it.
func (s *Session) load(ctx context.Context) error {
	s.touched = true
	start := time.Now()
	hops := 0
	for s.key != "" && !s.loaded {
		if hops++; hops > maxHops {
			return both(ErrUnavailable, errors.New("too many tombstones in a row"))
		}
		if err := s.loadLocked(ctx); err != nil {
			return err
		}
	}
	if !s.loaded { // there is none: the first write makes it
		s.forget()
	}
	s.m.event(Event{Kind: EventLoaded, Took: time.Since(start)})
	return nil
}

// loadLocked loads what is at s.key. Afterwards it is loaded, or s.key is "",
// or another.
func (s *Session) loadLocked(ctx context.Context) error {
	if s.set.needsLock() && s.unlock == nil && !s.saved {
		unlock, err := s.lock(ctx, s.key, s.set.consistent)
		if err != nil {
			return err
		}
		s.unlock = unlock
	}
	rec, err := s.m.store.Load(ctx, s.key)
	if s.set.consistent || err != nil || rec.Moved.To != "" {
		s.release()
	}
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && s.m.tooOld(rec):
		s.release()
		s.adopt("")
		return nil
	case err != nil:
		return err
	case rec.Moved.To != "":
		return s.loadMoved(ctx, rec)
	}
	s.keep(rec)
	s.prolong(ctx, rec)
	return nil
}

// tooOld tells whether the absolute lifetime is over, by this clock.
func (m *Manager) tooOld(rec Record) bool {
	return !rec.Deadline.IsZero() && !time.Now().Before(rec.Deadline)
}

// forget makes it an empty session that does not exist yet.
func (s *Session) forget() {
	s.release()
	s.adopt("")
	s.keep(Record{})
}

// keep takes over what was loaded.
func (s *Session) keep(rec Record) {
	s.loaded = true
	s.version, s.expires = rec.Version, rec.Deadline
	s.values = make(map[string][]byte, len(rec.Fields))
	s.order, s.size = nil, 0
	for _, op := range s.pending.ops { // after setMode there may be some
		s.size += s.sizeOf(op.Key)
	}
	for _, f := range rec.Fields {
		s.store(f.Key, f.Value)
	}
}

// store notes what a key's value is in the store; nil: there is none.
func (s *Session) store(key string, value []byte) {
	defer s.resize(key, s.sizeOf(key))
	_, had := s.values[key]
	switch {
	case value == nil && had:
		delete(s.values, key)
		s.order = slices.DeleteFunc(s.order, func(k string) bool { return k == key })
	case value != nil:
		s.values[key] = value
		if !had {
			s.order = append(s.order, key)
		}
	}
}

// sizeOf is what a key counts, as the request sees it.
func (s *Session) sizeOf(key string) int {
	if v, ok := s.view(key); ok {
		return len(key) + len(v)
	}
	return 0
}

// resize counts a key again that counted was before.
func (s *Session) resize(key string, was int) { s.size += s.sizeOf(key) - was }

// prolong moves the end of the idle time when a tenth of it has passed. A
// failure ends the session too early at worst, and the next request tries
// again.
func (s *Session) prolong(ctx context.Context, rec Record) {
	want := s.m.ttl(rec.Deadline)
	if want > 0 && (rec.TTL == 0 || rec.TTL < want-s.m.cfg.idle/10) {
		if err := s.m.store.Touch(ctx, s.key, want); err != nil {
			s.m.cfg.logger.WarnContext(ctx, "session: the idle time was not prolonged", "error", err)
		}
	}
}

// loadMoved handles an id from before Regenerate. A tombstone counts only while
// the session that it points to lives: a logout there ends it too.
func (s *Session) loadMoved(ctx context.Context, rec Record) error {
	s.m.event(Event{Kind: EventOldID})
	if !rec.Moved.Frozen {
		s.id, s.key = s.sent, rec.Moved.To
		return nil
	}
	alive, err := s.m.alive(ctx, rec.Moved.To)
	if err != nil {
		return err
	}
	if !alive {
		s.adopt("")
		return nil
	}
	s.keep(rec)
	// Whoever began before the id was changed may still write: it is what he
	// could have done a moment earlier, and taken along.
	s.frozen = !s.started.Before(rec.Moved.At)
	s.key, s.followed = rec.Moved.To, true
	return nil
}

// alive tells whether a session lives at key, or where it went from there.
func (m *Manager) alive(ctx context.Context, key string) (bool, error) {
	for range maxHops {
		rec, err := m.store.Load(ctx, key)
		if errors.Is(err, ErrNotFound) {
			return false, nil
		}
		if err != nil || rec.Moved.To == "" {
			return err == nil && !m.tooOld(rec), err
		}
		key = rec.Moved.To
	}
	return false, nil
}

// release gives the lock back.
func (s *Session) release() {
	if s.unlock != nil {
		s.unlock()
		s.unlock = nil
	}
}

// drop ends the request's use of the session without saving anything.
func (s *Session) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.saved, s.begun = pendingOps{}, true, true
	s.release()
}

// Abandon gives up the session for this request: nothing of it is saved that
// is not saved yet, its failures no longer replace the answer, and its lock is
// given back. The session itself stays as it is.
func (s *Session) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.abandoned = pendingOps{}, true
	s.release()
}
