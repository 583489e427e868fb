package session

import (
	"errors"
	"net/http"
)

// errBypassed: the session can neither send its cookie nor replace the answer.
var errBypassed = errors.New("the handler wrote its answer to another ResponseWriter than that of the session; put Manager.Middleware around the whole router")

// bypassed reports whether the handler has written its answer to the ResponseWriter that the
// session's writer wraps. That happens if a framework's adapter passes the request on to the next
// handler, but not the ResponseWriter. It can be noticed only if the framework's writer has the
// method Written, as gin's has.
func (w *writer) bypassed() bool {
	outer, ok := w.ResponseWriter.(interface{ Written() bool })
	return ok && outer.Written()
}

// reportBypass ends the session of a request whose answer has bypassed the session. With the option
// Development, it panics if the request needed an answer. Otherwise a session that the client knows
// is saved, and a new session, whose cookie cannot be sent, is not made.
func (w *writer) reportBypass() {
	w.begun = true
	needed, known := w.s.needsAnswer()
	var err error
	if known {
		err = w.s.closeSession(w.r.Context(), http.Header{}, http.StatusOK)
	}
	if needed {
		w.s.event(w.r.Context(), Event{Kind: EventLost, Err: joinErrors(errBypassed, err)})
		if w.s.m.cfg.dev {
			panic("session: " + errBypassed.Error())
		}
	}
}

// needsAnswer reports whether the answer matters to the session, because it has something to save,
// a cookie to send, or an error to report. The second result says whether the client has the
// session's id.
func (s *state) needsAnswer() (needed, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = s.ID() != "" && s.ID() == s.sent
	return s.pending.Len() > 0 || s.failure() != nil || s.ID() != s.sent, known
}
