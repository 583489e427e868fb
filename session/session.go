package session

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// What a Session goes through during its request. The last four rows can be true
// together with one of the others.
//
//	state      fields            reads              writes                 ends by
//	untouched  !loaded           load it            load it                the load
//	absent     loaded, key ""    find nothing       wait for the commit    the first commit, which creates it: live
//	live       loaded, key       the values loaded  wait for the commit    Regenerate: live under the new id; Destroy: destroyed
//	followed   followed          the values from    as live, if all that   Destroy: destroyed. Another request gave the session
//	                             before the move    was read is unchanged  a new id after this one began, or while it worked
//	frozen     frozen            the values from    ErrMoved, refused      nothing. The client sent an id from before Regenerate
//	                             before the move
//	to reload  !loaded, existed  load it again      load it again          the load; if there is none any more: failed, ErrDestroyed
//	destroyed  ended             ErrDestroyed       ErrDestroyed           nothing; the answer deletes the cookie
//	abandoned  abandoned         ErrAbandoned       ErrAbandoned           nothing; the answer stands as it is
//
//	failed     failed            the error          the error              Destroy, if it succeeds; else 409 or 503
//	refused    refused           work               work                   IgnoreRefused; else 409 or 503, and nothing is saved
//	saved      saved             work, no lock      ErrClosed; Update      nothing
//	begun      begun, saved      work, no lock      ErrClosed; Update      nothing; no cookie can be sent any more
//
// The id to send with the answer is id, whenever it differs from sent: in every
// state, and also after a panic.

// A Session is one request's view of a session. It is loaded at its first use;
// what other requests save after that is not seen. Its methods are safe for
// concurrent use by the goroutines of the request.
//
// Methods without a context use that of the request. When one of them returns
// an error of the store or of the lock, so do all later ones, and the answer is
// replaced, unless it is an error anyway: see Abandon. A write that is refused
// (ErrTooLarge, ErrKey, a value that cannot be encoded) replaces the answer too,
// and nothing of the request is saved: see IgnoreRefused.
type Session struct {
	m        *Manager
	ctx      context.Context
	started  time.Time
	deadline time.Time // of the answer; zero: none
	parent   *Session  // of the tx of an Update: the request's session
	waits    interruption

	mu      sync.Mutex // held during requests to the store too; that of a tx is locked before that of its parent
	set     settings
	sent    string // the id that the client has
	id      string // the session's; "" while there is none, or where it is not known
	key     string // in the store; "" while there is none
	touched bool   // something was asked of it
	loaded  bool
	existed bool      // in the store, when it was loaded or since it was created
	held    *heldLock // nil: the lock is not held
	failed  error     // of the store or the lock
	refused error     // of a write that was refused

	version  string          // in the store, as far as this request knows
	base     string          // the version that was loaded
	expires  time.Time       // end of the absolute lifetime
	values   ordered[[]byte] // as loaded, and as this request saved them since
	pending  ordered[Op]     // Puts and Deletes that wait for the commit, at most one for a key
	read     map[string]bool // keys that were read since the load
	readAll  bool            // by Keys
	earlier  earlier         // what was read before the load was repeated
	watched  map[string]bool // by Watch
	done     map[string]bool // of a tx: keys that it wrote in the store
	handed   []handedOut     // for Development
	size     int             // of keys and values, as the request sees them
	frozen   bool            // an old id, that may not write
	followed bool            // the version is that of the old id: compare what was read instead

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

// succeed makes s the session of the second run of a handler whose first run had
// prev. If the first run got a new id, the client has to get it from this one.
func (s *Session) succeed(prev *Session) {
	s.started, s.deadline = prev.started, prev.deadline
	s.adopt(prev.id)
}

// adopt makes id the session's.
func (s *Session) adopt(id string) {
	s.id, s.key = id, ""
	if id != "" {
		s.key = s.m.cfg.ids.key(id)
	}
}

// setMode changes the mode of a request under way. What was loaded without the
// lock is old once the lock is there, so it is loaded again, by the id that the
// request knows: an old id sees no more the second time.
func (s *Session) setMode(set settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	if s.set.needsLock() && s.loaded && s.held == nil && s.key != "" && !s.saved {
		s.earlier.add(s)
		s.read, s.readAll = nil, false
		s.loaded, s.frozen, s.followed = false, false, false
		s.adopt(s.id)
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
			s.event(Event{Kind: EventLost, Err: ErrClosed})
		}
		return ErrClosed
	}
	if !s.loaded {
		if err := s.load(s.ctx); err != nil {
			return s.fail(err)
		}
	}
	if write && s.frozen {
		return s.refuse(ErrMoved)
	}
	return nil
}

// fail makes err the session's. A call that came too late fails alone.
func (s *Session) fail(err error) error {
	if !errors.Is(err, ErrClosed) {
		s.failed = err
	}
	return err
}

// refuse notes that a write was refused, so that the answer does not say that
// all is well when the handler overlooks err.
func (s *Session) refuse(err error) error {
	if s.refused == nil {
		s.refused = err
	}
	return err
}

// IgnoreRefused says that the handler deals itself with the writes that were
// refused so far: because of ErrTooLarge, ErrKey or ErrMoved, because a value
// could not be encoded, or because an Update failed. The rest of the request is
// saved, and the answer stands. Without it the answer is replaced and nothing is
// saved.
func (s *Session) IgnoreRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = nil
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
	if !s.loaded {
		if s.existed {
			return ErrDestroyed // and not made anew by what this request writes
		}
		s.forget() // the first write makes it
	}
	s.event(Event{Kind: EventLoaded, Took: time.Since(start)})
	return nil
}

// loadLocked loads what is at s.key. Afterwards it is loaded, or s.key is "",
// or another.
func (s *Session) loadLocked(ctx context.Context) error {
	if s.set.needsLock() && s.held == nil && !s.saved {
		held, err := s.lock(ctx, s.key, s.set.consistent)
		switch {
		case err == nil:
			s.held = held
		case s.set.lockOptional && s.canDoWithout(err):
			s.set.mode = optimistic
		default:
			return err
		}
	}
	rec, err := s.m.store.Load(ctx, s.key)
	if s.set.consistent || err != nil || rec.Moved.To != "" {
		s.release()
	}
	switch {
	case errors.Is(err, ErrRefused) && s.m.cfg.discardUnreadable:
		s.event(Event{Kind: EventUnreadable, Err: err})
		s.adopt("")
		return nil
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
	s.loaded, s.existed = true, s.key != ""
	s.version, s.base, s.expires = rec.Version, rec.Version, rec.Deadline
	s.values, s.size = ordered[[]byte]{}, 0
	for key := range s.pending.all() { // after setMode there may be some
		s.size += s.sizeOf(key)
	}
	for _, f := range rec.Fields {
		s.store(f.Key, f.Value)
	}
}

// store notes the value that key has in the store now.
func (s *Session) store(key string, value []byte) {
	was := s.sizeOf(key)
	s.values.set(key, value)
	s.size += s.sizeOf(key) - was
}

// unstore notes that key is not in the store now.
func (s *Session) unstore(key string) {
	was := s.sizeOf(key)
	s.values.delete(key)
	s.size += s.sizeOf(key) - was
}

// sizeOf is what a key counts, as the request sees it.
func (s *Session) sizeOf(key string) int {
	if v, ok := s.view(key); ok {
		return len(key) + len(v)
	}
	return 0
}

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
	s.event(Event{Kind: EventOldID})
	if !rec.Moved.Frozen {
		s.key = rec.Moved.To
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
	// A request that began before the id was changed may still write. It could
	// have done so a moment earlier, and its writes would have been copied.
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

// drop ends the request's use of the session without saving anything.
func (s *Session) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.saved, s.begun = ordered[Op]{}, true, true
	s.release()
}

// Abandon gives up the session for this request: nothing of it is saved that
// is not saved yet, its failures no longer replace the answer, and its lock is
// released. The session itself stays as it is.
func (s *Session) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.abandoned = ordered[Op]{}, true
	s.release()
}
