package session

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
)

func (m *Manager) serve(w http.ResponseWriter, r *http.Request, next http.Handler, set settings) {
	var prev *state
	for attempt := 1; r != nil; attempt++ {
		s := m.newState(r, set)
		if prev != nil {
			s.continueFrom(prev)
		}
		r = m.runOnce(w, r, next, s, attempt)
		prev = s
	}
}

// runOnce runs the handler once. If the handler has to run again, runOnce returns the request for
// that run; otherwise it returns nil.
func (m *Manager) runOnce(w http.ResponseWriter, r *http.Request, next http.Handler, s *state, attempt int) *http.Request {
	rw := &writer{ResponseWriter: w, s: s, r: r, attempt: attempt, before: w.Header().Clone()}
	defer rw.dropUnsaved()
	s.request = r.WithContext(carry(r.Context(), s))
	next.ServeHTTP(rw, s.request)
	switch {
	case rw.begun:
	case rw.bypassed():
		rw.reportBypass()
	default:
		rw.beginAnswer(http.StatusOK)
	}
	if rw.again != nil {
		rw.resetHeader() // also removes the headers that the handler set after the refusal
		s.m.dropOwnCookie(w.Header())
	}
	return rw.again
}

// dropUnsaved drops the unsaved writes when the handler has ended. If the handler panicked, the
// client may not know the session's id, because Regenerate or Incr has made a new one. Then
// dropUnsaved adds the cookie to the header, and an outer handler that recovers the panic sends it.
func (w *writer) dropUnsaved() {
	w.s.waits.stop()
	w.s.sendID(w.Header())
	w.s.drop(w.r.Context())
}

// sendID sets the cookie, unless the answer has begun.
func (s *state) sendID(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage != begun {
		s.setCookie(h)
	}
}

// writer saves the session before the first byte is written. Like every ResponseWriter, it is used
// by one goroutine at a time.
type writer struct {
	http.ResponseWriter
	s       *state
	r       *http.Request
	attempt int
	before  http.Header // a copy of the header, made before the handler ran
	begun   bool        // the session was saved, or saving it failed
	refused error       // the reason why the handler's answer is dropped
	again   *http.Request
}

// Unwrap lets http.ResponseController find the ResponseWriter inside.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader saves the session, unless the code is that of an interim answer.
func (w *writer) WriteHeader(code int) {
	if code < 200 && code >= 100 && code != http.StatusSwitchingProtocols {
		if w.refused == nil {
			w.ResponseWriter.WriteHeader(code)
		}
		return
	}
	if w.begun && w.refused == nil || !w.begun && w.beginAnswer(code) {
		w.ResponseWriter.WriteHeader(code)
	}
}

// beginAnswer saves the session and sends its cookie. If that fails and the answer is not an error,
// beginAnswer replaces the answer and returns false.
func (w *writer) beginAnswer(code int) bool {
	w.begun = true
	err := w.s.closeSession(w.r.Context(), w.Header(), code)
	if err == nil {
		return true
	}
	if code >= 400 {
		w.s.event(w.r.Context(), Event{Kind: EventFailed, Err: err})
		return true
	}
	w.refused = err
	w.refuse(err)
	return false
}

// refuse replaces the answer of the handler, or makes the handler run again.
func (w *writer) refuse(err error) {
	m := w.s.m
	w.resetHeader()
	if errors.Is(err, ErrConflict) {
		w.s.event(w.r.Context(), Event{Kind: EventConflict, Err: err})
		if w.attempt <= m.cfg.retries {
			if w.again = repeatable(w.r); w.again != nil {
				return
			}
		}
	} else {
		w.s.event(w.r.Context(), Event{Kind: EventFailed, Err: err})
	}
	w.Header().Set("Cache-Control", "no-store")
	if m.cfg.onError != nil {
		m.cfg.onError(w.ResponseWriter, w.r, err)
		return
	}
	code := Status(err)
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w.ResponseWriter, publicText(err), code)
}

// repeatable returns a request for another run of the handler: r with a body that can be read once
// more. If there is no such body, it returns nil.
func repeatable(r *http.Request) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	r = r.WithContext(r.Context())
	r.Body = body
	return r
}

// resetHeader makes the header what it was before the handler ran. A cookie with a new id stays in
// the header, because the client would lose its session without that id.
func (w *writer) resetHeader() {
	h, m := w.Header(), w.s.m
	own := m.ownCookies(h["Set-Cookie"])
	clear(h)
	maps.Copy(h, w.before.Clone())
	if own != nil {
		m.dropOwnCookie(h)
		h["Set-Cookie"] = append(h["Set-Cookie"], own...)
	}
}

// publicText returns the text of the answer. It contains nothing that the client must not know.
func publicText(err error) string {
	var busy *BusyError
	if errors.As(err, &busy) && busy.Foreign {
		return "The session is locked by another program, and its lock " + busy.Lock + " has no expiry."
	}
	for _, known := range []error{ErrConflict, ErrDestroyed, ErrMoved, ErrBusy, ErrTooManyWaiters, ErrUnsaved, ErrTooLarge} {
		if errors.Is(err, known) {
			return "The " + known.Error() + "."
		}
	}
	return "The session is not available."
}

// Write saves the session first.
func (w *writer) Write(p []byte) (int, error) {
	if !w.ensureBegun() {
		return 0, w.refused
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom saves the session first, and lets the kernel copy files.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	if !w.ensureBegun() {
		return 0, w.refused
	}
	return io.Copy(w.ResponseWriter, r)
}

// ensureBegun makes sure that the answer has begun.
func (w *writer) ensureBegun() bool {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.refused == nil
}

// FlushError saves the session first.
func (w *writer) FlushError() error {
	if !w.ensureBegun() {
		return w.refused
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush saves the session first.
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack saves the session first. The cookie of a new session is then in the header, and the code
// that takes over the connection must send it.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.refused != nil {
		return nil, nil, w.refused
	}
	if !w.begun {
		if err := w.s.closeSession(w.r.Context(), w.Header(), http.StatusSwitchingProtocols); err != nil {
			return nil, nil, err
		}
		w.begun = true
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
