package session_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// walk is one request. The test takes steps in the middle of it.
type walk struct {
	*testing.T
	s     *session.Session
	store *broken
	other *browser // the same visitor, with the cookie from before the request
	w     http.ResponseWriter
	r     *http.Request
}

// A step does one thing and returns the session's error.
type step func(*walk) error

var steps = map[string]step{
	"has":   func(w *walk) error { _, err := w.s.Has("k"); return err },
	"put":   func(w *walk) error { return w.s.Put("own", 2) },
	"large": func(w *walk) error { return w.s.Put("own", make([]byte, 5000)) },
	"incr":  func(w *walk) error { _, err := w.s.Incr(bg, "n", 1); return err },
	"regen": func(w *walk) error { return w.s.Regenerate(bg) },
	"end":   func(w *walk) error { return w.s.Destroy(bg) },
	"save":  func(w *walk) error { return w.s.Commit(bg) },
	"update": func(w *walk) error {
		return w.s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("updated", 1) })
	},
	"lock":    func(w *walk) error { w.with(session.Exclusive); return nil },
	"answer":  func(w *walk) error { w.w.WriteHeader(http.StatusOK); return nil },
	"abandon": func(w *walk) error { w.s.Abandon(); return nil },
	"ignore":  func(w *walk) error { w.s.IgnoreRefused(); return nil },
	"down":    func(w *walk) error { w.store.load = session.ErrUnavailable; return nil },
	"up":      func(w *walk) error { w.store.load = nil; return nil },
	"other regen": func(w *walk) error {
		<-time.After(2 * time.Millisecond) // Moved.At is in whole milliseconds
		w.other.ok(func(s *session.Session) { noError(w, s.Regenerate(bg)) })
		return nil
	},
	"other end": func(w *walk) error {
		w.other.ok(func(s *session.Session) { noError(w, s.Destroy(bg)) })
		return nil
	},
}

// w.with sets the mode, as an inner route does. It takes no lock; a later step takes the lock.
func (w *walk) with(o session.RouteOption) {
	m := w.other.m
	m.With(o)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w.w, w.r)
}

// edges lists the edges in the tables of Standing, Trouble and stage, and some changes that must not be
// edges. In each row one request takes all steps. The visitor has a session by default; the field
// begin can change that. The last step must return err, and then StandingOf must return state.
var edges = []struct {
	begin  string // "new": the visitor has no session; "old": the cookie is from before Regenerate
	steps  []string
	state  string
	err    error
	status int // status of the answer; 0 means 200
}{
	{"", nil, "unread", nil, 0},
	{"new", []string{"has"}, "absent", nil, 0},
	{"", []string{"has"}, "loaded", nil, 0},
	{"", []string{"other regen", "has"}, "followed", nil, 0},
	{"old", []string{"has"}, "frozen", nil, 0},
	{"", []string{"end"}, "destroyed", nil, 0},
	{"", []string{"down", "has"}, "unread failed", session.ErrUnavailable, 503},

	{"new", []string{"has", "put"}, "absent", nil, 0},
	{"new", []string{"has", "put", "save"}, "loaded saved", nil, 0},
	{"new", []string{"has", "incr"}, "loaded", nil, 0},
	{"new", []string{"has", "regen"}, "absent", nil, 0},
	{"new", []string{"has", "lock"}, "absent", nil, 0},
	{"new", []string{"has", "end"}, "destroyed", nil, 0},
	{"new", []string{"has", "update"}, "loaded", nil, 0},

	{"", []string{"has", "put"}, "loaded", nil, 0},
	{"", []string{"has", "regen"}, "loaded", nil, 0},
	{"", []string{"has", "other regen", "put"}, "loaded", nil, 0},
	{"", []string{"has", "other regen", "incr"}, "followed", nil, 0},
	{"", []string{"has", "lock"}, "reload", nil, 0},
	{"", []string{"has", "end"}, "destroyed", nil, 0},
	{"", []string{"has", "other end", "incr"}, "loaded failed", session.ErrDestroyed, 409},

	{"", []string{"has", "lock", "has"}, "loaded", nil, 0},
	{"", []string{"has", "other regen", "lock", "has"}, "followed", nil, 0},
	{"old", []string{"has", "lock", "has"}, "frozen", nil, 0},
	{"", []string{"has", "other end", "lock", "has"}, "reload failed", session.ErrDestroyed, 409},
	{"", []string{"has", "lock", "end"}, "destroyed", nil, 0},

	{"", []string{"other regen", "has", "put"}, "followed", nil, 0},
	{"", []string{"other regen", "has", "regen"}, "followed", nil, 0},
	{"", []string{"other regen", "has", "lock"}, "reload", nil, 0},
	{"", []string{"other regen", "has", "end"}, "destroyed", nil, 0},

	{"old", []string{"has", "put"}, "frozen refused", session.ErrMoved, 409},
	{"old", []string{"has", "update"}, "frozen refused", session.ErrMoved, 409},
	{"old", []string{"has", "end"}, "destroyed", nil, 0},
	{"old", []string{"end"}, "destroyed", nil, 0},
	{"old", []string{"has", "regen"}, "absent", nil, 0},
	{"old", []string{"has", "regen", "put", "save"}, "loaded saved", nil, 0},
	{"old", []string{"has", "lock"}, "reload", nil, 0},

	{"", []string{"end", "has"}, "destroyed", session.ErrDestroyed, 0},
	{"", []string{"end", "put"}, "destroyed", session.ErrDestroyed, 0},
	{"", []string{"end", "end"}, "destroyed", nil, 0},
	{"", []string{"has", "end", "lock"}, "destroyed", nil, 0},

	{"", []string{"has", "abandon"}, "loaded abandoned", nil, 0},
	{"", []string{"abandon", "has"}, "unread abandoned", session.ErrAbandoned, 0},
	{"", []string{"abandon", "end"}, "unread abandoned", session.ErrAbandoned, 0},
	{"", []string{"down", "has", "abandon"}, "unread abandoned", nil, 0},
	{"", []string{"end", "abandon"}, "destroyed abandoned", nil, 0},

	{"", []string{"down", "has", "up", "has"}, "unread failed", session.ErrUnavailable, 503},
	{"", []string{"down", "has", "end"}, "unread failed", session.ErrUnavailable, 503},
	{"", []string{"down", "has", "up", "end"}, "destroyed", nil, 0},

	{"", []string{"has", "large"}, "loaded refused", session.ErrTooLarge, 503},
	{"", []string{"large", "has"}, "loaded refused", nil, 503},
	{"", []string{"large", "ignore"}, "loaded", nil, 0},
	{"", []string{"large", "end"}, "destroyed refused", nil, 0},

	{"", []string{"put", "save"}, "loaded saved", nil, 0},
	{"", []string{"save", "has"}, "loaded saved", nil, 0},
	{"", []string{"save", "put"}, "unread saved", session.ErrClosed, 0},
	{"", []string{"save", "update"}, "loaded saved", nil, 0},
	{"", []string{"save", "end"}, "destroyed saved", nil, 0},
	{"", []string{"has", "save", "lock"}, "loaded saved", nil, 0},
	{"", []string{"save", "answer"}, "unread begun", nil, 0},
	{"", []string{"put", "answer"}, "loaded begun", nil, 0},
	{"", []string{"answer", "has"}, "loaded begun", nil, 0},
	{"", []string{"answer", "put"}, "unread begun", session.ErrClosed, 0},
	{"", []string{"answer", "regen"}, "unread begun", session.ErrClosed, 0},
	{"", []string{"answer", "update"}, "loaded begun", nil, 0},
	{"new", []string{"answer", "update"}, "absent begun", session.ErrClosed, 0},
}

// TestStates walks every edge of the tables in the comments of Standing, Trouble and stage.
func TestStates(t *testing.T) {
	for _, e := range edges {
		store := &broken{Store: sessionstore.NewMemory()}
		b := newBrowser(t, newManager(t, store, session.MaxSize(1000)))
		if e.begin != "new" {
			b.putValue("k", 1)
		}
		if e.begin == "old" {
			b.twin().ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
		}
		answer := b.twin().answer(func(w http.ResponseWriter, r *http.Request) {
			walk := &walk{t, session.From(r.Context()), store, b.twin(), w, r}
			var err error
			for _, name := range e.steps {
				err = steps[name](walk)
			}
			if state := session.StandingOf(walk.s); state != e.state || !errors.Is(err, e.err) || (err == nil) != (e.err == nil) {
				t.Errorf("%s %q: %q, %v; want %q, %v", e.begin, e.steps, state, err, e.state, e.err)
			}
		})
		if want := max(200, e.status); answer.Code != want {
			t.Errorf("%s %q: answer %d, want %d", e.begin, e.steps, answer.Code, want)
		}
	}
}

// TestUserSessionWithLock takes the lock of a session whose id is not known, after it was loaded.
func TestUserSessionWithLock(t *testing.T) {
	m := newManager(t, sessionstore.NewMemory())
	b := newBrowser(t, m)
	b.ok(func(s *session.Session) { noError(t, s.SetUser("ann")) })
	sessions, err := m.UserSessions(bg, "ann")
	if err != nil || len(sessions) != 1 {
		t.Fatal(sessions, err)
	}
	s := sessions[0]
	r := httptest.NewRequestWithContext(session.NewContext(bg, s), "GET", "/", nil)
	m.With(session.Exclusive)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		noError(t, s.Put("k", 1))
		noError(t, s.Commit(bg))
		noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("updated", 1) }))
	})).ServeHTTP(httptest.NewRecorder(), r)
	has(b, "k", 1)
	has(b, "updated", 1)
}
