package load

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/padlock-go/padlock/web/session"
)

// Handler serves the paths of this package with m. The routes that write get writeOptions, and the
// other routes are ReadOnly.
func Handler(m *session.Manager, writeOptions ...session.RouteOption) http.Handler {
	mux := http.NewServeMux()
	write := func(path string, h handler) { mux.Handle("GET "+path, m.With(writeOptions...)(h)) }
	read := func(path string, h handler) { mux.Handle("GET "+path, m.With(session.ReadOnly)(h)) }
	write("/start", func(s *session.Session, _ *http.Request) (string, error) { return "", s.Put("started", 1) })
	write("/set", set)
	write("/add", add)
	write("/incr", func(s *session.Session, r *http.Request) (string, error) {
		n, err := s.Incr(r.Context(), r.FormValue("key"), 1)
		return fmt.Sprint(n), err
	})
	write("/logout", func(s *session.Session, r *http.Request) (string, error) { return "", s.Destroy(r.Context()) })
	read("/read", func(s *session.Session, r *http.Request) (string, error) {
		_, err := session.Get[int](s, "started")
		work(r)
		return "", err
	})
	read("/keys", func(s *session.Session, _ *http.Request) (string, error) {
		keys, err := s.Keys()
		return strings.Join(keys, "\n"), err
	})
	read("/value", func(s *session.Session, r *http.Request) (string, error) {
		n, err := session.Get[int](s, r.FormValue("key"))
		return fmt.Sprint(n), err
	})
	return mux
}

type handler func(*session.Session, *http.Request) (string, error)

// ServeHTTP ignores errors of the session, because the session's middleware reports them.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := h(session.From(r.Context()), r)
	if errors.Is(err, session.ErrNotNumber) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, text)
}

func set(s *session.Session, r *http.Request) (string, error) {
	if _, err := session.Get[int](s, "started"); err != nil {
		return "", err
	}
	work(r)
	return "", s.Put(r.FormValue("key"), 1)
}

func add(s *session.Session, r *http.Request) (string, error) {
	key := r.FormValue("key")
	n, err := session.Get[int](s, key)
	if err != nil {
		return "", err
	}
	work(r)
	return "", s.Put(key, n+1)
}

// work takes as long as the request says, and a little longer on a busy machine.
func work(r *http.Request) {
	if d, err := time.ParseDuration(r.FormValue("work")); err == nil && d > 0 {
		wait(r.Context(), d)
	}
}
