package session

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A Session is one request's view of a session. It is loaded at its first use; later changes by
// other requests are not seen. Get one from From or Manager.From; the zero Session is not usable.
// If From or WithContext is called several times in one request, the Sessions share everything
// except their context. The methods are safe for concurrent use.
//
// Incr, Take, Flashes, Regenerate, Destroy, Update and Commit always call the store, so they take a
// context. All other methods use the values that the request has loaded. The first call loads them,
// with the context that was given to From or WithContext. An inner handler may have a context of
// its own, for example from http.TimeoutHandler or with a trace's span. It should call From with
// that context, so that the context's deadline and values reach the store.
//
// If the store or the lock fails, all later calls of the request return the same error. The Manager
// then sends an error answer in place of the handler's answer, unless the handler itself has sent a
// status of 400 or more. Abandon prevents that. If a write is refused (ErrTooLarge, ErrKey, a value
// that cannot be encoded), the Manager also sends an error answer, and saves none of the request's
// writes. IgnoreRefused prevents that.
//
// No printer or encoder shows its id.
type Session struct {
	open func() (*state, context.Context) // a func, because no printer can look inside
}

func newSession(s *state, ctx context.Context) *Session {
	return &Session{func() (*state, context.Context) { return s, ctx }}
}

// WithContext returns the same session with another context: see Session.
func (h *Session) WithContext(ctx context.Context) *Session {
	s, _ := h.open()
	return newSession(s, ctx)
}

// stage says how far the request has come:
//
//	stage  meaning
//	open   the handler works, and nothing is saved yet
//	saved  Commit has saved the session, or the answer is about to begin
//	begun  the answer has begun, so no cookie can be sent
//
// In the stage open, reads and writes work. Later, a read works without the lock, and a write
// returns ErrClosed, except in Update. The stage goes back only from saved to open, in two cases:
//
//   - Commit saved nothing, because a write was refused. The handler can still call IgnoreRefused
//     and save the session.
//   - The answer began while Commit waited for the lock. Commit returns ErrClosed. The goroutine
//     that began the answer saves the session.
type stage uint8

const (
	open stage = iota
	saved
	begun
)

// state is the session of one request. An Update has a further state of its own.
type state struct {
	m        *Manager
	started  time.Time
	deadline time.Time     // when the request must be answered; zero: none
	request  *http.Request // as the handler gets it; nil outside of requests
	prefetch bool          // the browser loads the page before anybody has asked for it
	parent   *state        // nil; in the state of an Update, it points to the state of the request
	waits    interruption

	// mu stays locked during requests to the store. In an Update, a function that needs two locks
	// locks mu first, and then parent.mu.
	mu  sync.Mutex
	set settings
	standing.Place
	standing.Trouble
	stage    stage
	sent     string   // the id in the client's cookie; if ID differs, the answer sends a new cookie
	otherIDs []string // further ids that the client has sent
	touched  bool     // the session was used
	held     *heldLock

	version string // the version in the store, as far as this request knows
	base    string // the version that was loaded
	life    life   // how long the session lives, with the writes of this request
	view
	wroteWith context.Context // what Session.ctx was at the last Put or Delete (see dropCutOff)
	wrote     map[string]bool // in the state of an Update: the keys that the Update wrote in the store
	newCookie bool            // the cookie must be sent again, because of Remember
	lastFlash int64           // the time in the key of the last message of this request, in ns since 1970
}

// newState reads the cookie and nothing else.
func (m *Manager) newState(r *http.Request, set settings) *state {
	s := &state{m: m, started: time.Now(), set: set}
	s.deadline = deadlineOf(r, s.started)
	s.prefetch = strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch")
	s.otherIDs = m.idsFrom(r)
	s.nextID()
	return s
}

// nextID makes s the session of the next id that the client has sent. It returns false if there is
// none.
func (s *state) nextID() bool {
	if len(s.otherIDs) == 0 {
		return false
	}
	s.sent, s.otherIDs = s.otherIDs[0], s.otherIDs[1:]
	s.seek(s.sent)
	return true
}

// hasIDOf makes s the session at key, if the client has sent its id too. After a login the browser
// sends the old id next to the new one if they are cookies of different paths, domains or partitions.
func (s *state) hasIDOf(key string) bool {
	for _, id := range s.otherIDs {
		if s.m.rules.Key(id) == key {
			s.sent, s.otherIDs = id, nil
			s.seek(id)
			return true
		}
	}
	return false
}

// continueFrom makes s the session of the second run of a handler. prev is the session of the first
// run. If the first run got a new id, s has to send that id to the client.
func (s *state) continueFrom(prev *state) {
	s.started, s.deadline = prev.started, prev.deadline
	s.seek(prev.ID())
	s.otherIDs = nil
}

// seek makes s the session that belongs to id.
func (s *state) seek(id string) {
	if id == "" {
		s.Seek("", "")
	} else {
		s.Seek(id, s.m.rules.Key(id))
	}
}

// setMode changes the mode of a request under way. The session may have been loaded without the
// lock, so its values may be out of date. If the new mode needs the lock, the session is loaded
// again as soon as the lock is held.
func (s *state) setMode(set settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	current := s.Is(standing.Loaded) || s.Is(standing.Followed) || s.Is(standing.Frozen)
	if s.set.needsLock() && current && s.held == nil && s.stage == open {
		s.view.reload()
		s.Again()
	}
}

// fail makes err the error of the session, so that later calls return it, too. ErrClosed does not
// become the error of the session: only the call that came too late gets it.
func (s *state) fail(err error) error {
	if !errors.Is(err, ErrClosed) {
		s.Fail(err)
	}
	return err
}

// refuse records err, the error of a write that was refused. After that, even a handler that
// overlooks err cannot answer with success.
func (s *state) refuse(err error) error {
	s.Refuse(err)
	return err
}

// failure returns the error that replaces the answer.
func (s *state) failure() error {
	switch {
	case s.Failed() != nil:
		return s.Failed()
	case s.Is(standing.Destroyed):
		return nil // the session has ended, so the refused write no longer matters
	}
	return s.Refused()
}

// IgnoreRefused tells the Manager that the handler has dealt with the writes that were refused so
// far. They were refused because of ErrTooLarge, ErrKey or ErrMoved, because a value could not be
// encoded, or because an Update failed. The other writes of the request are saved, and the answer
// stays as it is. Without IgnoreRefused the answer is replaced and nothing is saved.
func (h *Session) IgnoreRefused() {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Trouble.IgnoreRefused()
}

// keepRecord makes the values of rec those of the session.
func (s *state) keepRecord(rec sessionstore.Record) {
	s.version, s.base = rec.Version, rec.Version
	if !s.pending.Has(endKey) && !s.pending.Has(rememberKey) {
		s.life = s.m.lifeOf(rec)
	}
	s.replace(rec.Fields)
	if s.m.traits.CommitsNeedLock && s.values.Has(userKey) {
		s.watch([]string{userKey}) // another program may end the session, and make a new one with its id
	}
	s.try = rec.Try
}

// markDestroyed marks the session as destroyed.
func (s *state) markDestroyed() {
	s.clearView()
	s.Place.Destroy()
}

// root returns the state of the request. If s is the state of an Update, that is its parent;
// otherwise it is s itself.
func (s *state) root() *state {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// unlocked calls f without s.mu, so that f may use s.
func (s *state) unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}
