package session_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// sharedCache keeps answers for all clients, by their path, as content networks do. With vary it
// follows RFC 9111 and keeps one for each value of the request's Cookie, too.
func sharedCache(h http.Handler, vary bool) http.Handler {
	kept := map[string]*httptest.ResponseRecorder{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path
		if vary {
			key += " " + r.Header.Get("Cookie")
		}
		answer := kept[key]
		if answer == nil {
			answer = httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			control := strings.Join(answer.Header()["Cache-Control"], ", ")
			if !strings.Contains(control, "private") && !strings.Contains(control, "no-store") {
				kept[key] = answer
			}
		}
		for name, lines := range answer.Header() {
			w.Header()[name] = slices.Clone(lines)
		}
		w.Write(answer.Body.Bytes())
	})
}

// No shared cache gives an answer that sends a cookie to another visitor. An answer of a handler that
// only reads the session is kept if the handler allows that, and caches that ignore Vary give it to
// everybody.
func TestSharedCache(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		handler string // its Cache-Control
		vary    bool
		leaks   bool
	}{{"", false, false}, {"", true, false}, {"no-store", false, false}, {"public, max-age=60", true, false}, {"public, max-age=60", false, true}} {
		t.Run(fmt.Sprint(c.handler, " ", c.vary), func(t *testing.T) {
			m := newManager(t, sessionstore.NewMemory())
			page := func(w http.ResponseWriter, r *http.Request) {
				if c.handler != "" {
					w.Header().Set("Cache-Control", c.handler)
				}
				s := session.From(r.Context())
				if r.URL.Path == "/login" {
					noError(t, s.Put("user", r.Header.Get("X-User")))
				}
				fmt.Fprint(w, session.GetOr(s, "user", "nobody"))
			}
			h := sharedCache(routes{"/": page}.behind(m), c.vary)
			visit := func(user, path, cookie string) (body, set string) {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("X-User", user)
				if cookie != "" {
					r.Header.Set("Cookie", cookie)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				set, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
				return w.Body.String(), set
			}
			_, ann := visit("ann", "/login", "")
			body, bob := visit("bob", "/login", "")
			if body != "bob" || bob == "" || bob == ann {
				t.Errorf("bob logs in as %s with the cookie %s; ann has %s", body, bob, ann)
			}
			visit("ann", "/page", ann)
			if body, _ := visit("bob", "/page", bob); (body != "bob") != c.leaks {
				t.Errorf("bob gets the page of %s", body)
			}
		})
	}
}
