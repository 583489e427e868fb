package load

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/padlock-go/padlock/session"
)

// Handler serves the paths of this package with m. The routes that write get writeOptions, and the
// other routes are ReadOnly.
func Handler(m *session.Manager, writeOptions ...session.RouteOption) http.Handler {
	mux := http.NewServeMux()
	write := func(path string, h handler) { mux.Handle("GET "+path, m.With(writeOptions...)(h)) }
	read := func(path string, h handler) { mux.Handle("GET "+path, m.With(session.ReadOnly)(h)) }
	write("/start", func(s *session.Session, _ *request) (string, error) { return "", s.Put("started", 1) })
	write("/set", set)
	write("/add", add)
	write("/incr", func(s *session.Session, r *request) (string, error) {
		n, err := s.Incr(r.Context(), r.FormValue("key"), 1)
		return fmt.Sprint(n), err
	})
	write("/logout", func(s *session.Session, r *request) (string, error) { return "", s.Destroy(r.Context()) })
	read("/read", func(s *session.Session, r *request) (string, error) {
		_, err := session.Get[int](s, "started")
		r.work()
		return "", err
	})
	read("/keys", func(s *session.Session, _ *request) (string, error) {
		keys, err := s.Keys()
		return strings.Join(keys, "\n"), err
	})
	read("/value", func(s *session.Session, r *request) (string, error) {
		n, err := session.Get[int](s, r.FormValue("key"))
		return fmt.Sprint(n), err
	})
	return mux
}

// Bare serves /read without any session, for comparison.
func Bare() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { (&request{Request: r}).work() })
}

type handler func(*session.Session, *request) (string, error)

// request measures how long its handler worked.
type request struct {
	*http.Request
	worked time.Duration
}

// ServeHTTP ignores errors of the session, because the session's middleware reports them.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{Request: r}
	text, err := h(session.From(r.Context()), req)
	w.Header().Set(workHeader, req.worked.String())
	if errors.Is(err, session.ErrNotNumber) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, text)
}

func set(s *session.Session, r *request) (string, error) {
	if _, err := session.Get[int](s, "started"); err != nil {
		return "", err
	}
	r.work()
	return "", s.Put(r.FormValue("key"), 1)
}

func add(s *session.Session, r *request) (string, error) {
	key := r.FormValue("key")
	n, err := session.Get[int](s, key)
	if err != nil {
		return "", err
	}
	r.work()
	return "", s.Put(key, n+1)
}

// work takes as long as the request says, and a little longer on a busy machine.
func (r *request) work() {
	if d, err := time.ParseDuration(r.FormValue("work")); err == nil && d > 0 {
		start := time.Now()
		wait(r.Context(), d)
		r.worked += time.Since(start)
	}
}
