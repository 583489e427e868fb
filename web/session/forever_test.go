package session_test

import (
	"context"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// The longest Duration means "for ever" as a MaxWait, an IdleTimeout, a Lifetime and a GracePeriod.
func TestForever(t *testing.T) {
	const forever = time.Duration(math.MaxInt64)
	m := newManager(t, sessionstore.NewMemory(), session.MaxWait(forever), session.IdleTimeout(forever), session.Lifetime(forever))
	c := serve(t, routes{
		"/put": func(w http.ResponseWriter, r *http.Request) {
			must[int](t)(0, session.From(r.Context()).Put("a", 1))
		},
		"/incr": func(w http.ResponseWriter, r *http.Request) {
			must[int64](t)(session.From(r.Context()).Incr(r.Context(), "a", 1))
		},
		"/update": func(w http.ResponseWriter, r *http.Request) {
			must[int](t)(0, session.From(r.Context()).Update(r.Context(), func(_ context.Context, tx *session.Session) error { return tx.Put("b", 1) }))
		},
		"/id": func(w http.ResponseWriter, r *http.Request) {
			must[int](t)(0, session.From(r.Context()).Regenerate(r.Context(), session.GracePeriod(forever)))
		},
		"/get": func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			if a, b := must[int](t)(session.Get[int](s, "a")), must[int](t)(session.Get[int](s, "b")); a != 2 || b != 1 {
				t.Errorf("a is %d, b is %d", a, b)
			}
		},
	}.behind(m))
	for _, path := range []string{"/put", "/incr", "/update", "/id", "/get"} {
		wantPage(t, c, path, http.StatusOK, "")
	}
}
