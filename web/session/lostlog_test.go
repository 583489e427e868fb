package session_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// The log of a write that came too late names the route and the key.
func TestLostWriteIsNamed(t *testing.T) {
	for name, write := range map[string]func(*session.Session) error{
		"Put":    func(s *session.Session) error { return s.Put("cart", 1) },
		"Delete": func(s *session.Session) error { return s.Delete("cart") },
		"Incr":   func(s *session.Session) error { _, err := s.Incr(bg, "cart", 1); return err },
		"Flash":  func(s *session.Session) error { return s.Flash("cart", 1) },
		"Flashes": func(s *session.Session) error {
			_, err := session.Flashes[int](bg, s, "cart")
			return err
		},
	} {
		for _, mux := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				var keys []string
				m := newManager(t, sessionstore.NewMemory(), session.Logger(slog.New(slog.NewTextHandler(&log, nil))),
					session.OnEvent(func(_ context.Context, e session.Event) {
						if e.Kind == session.EventLost {
							keys = append(keys, e.Key)
						}
					}))
				var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(http.StatusOK)
					if write(session.From(r.Context())) == nil {
						t.Error("the write came in time")
					}
				})
				route := `route="GET /shop/7"`
				if mux {
					routes := http.NewServeMux()
					routes.Handle("GET /shop/{id}", h)
					h, route = routes, `route="GET /shop/{id}"`
				}
				m.Middleware(h).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/shop/7?secret=1", nil))
				line := log.String()
				if !strings.Contains(line, "session: lost") || !strings.Contains(line, route) || !strings.Contains(line, "cart") || strings.Contains(line, "secret") {
					t.Error(line)
				}
				if len(keys) != 1 || !strings.Contains(keys[0], "cart") {
					t.Errorf("%q", keys)
				}
			})
		}
	}
}
