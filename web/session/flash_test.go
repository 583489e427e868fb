package session_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A page that the browser prefetches is perhaps never shown, so it does not use up the messages.
func TestFlashPrefetch(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"request", "update"} {
		t.Run(in, func(t *testing.T) {
			take := func(r *http.Request, s *session.Session) (got []string, err error) {
				if in == "request" {
					return session.Flashes[string](r.Context(), s, "notice")
				}
				err = s.Update(r.Context(), func(_ context.Context, tx *session.Session) error {
					got, err = session.Flashes[string](r.Context(), tx, "notice")
					return err
				})
				return got, err
			}
			h := routes{
				"/put": func(_ http.ResponseWriter, r *http.Request) { session.From(r.Context()).Flash("notice", "saved") },
				"/show": func(w http.ResponseWriter, r *http.Request) {
					got, err := take(r, session.From(r.Context()))
					fmt.Fprint(w, got, err)
				},
			}.behind(newManager(t, sessionstore.NewMemory()))
			var cookies []*http.Cookie
			ask := func(path, purpose string) string {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				for _, c := range cookies {
					r.AddCookie(c)
				}
				if purpose != "" {
					r.Header.Set("Sec-Purpose", purpose)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if set := w.Result().Cookies(); len(set) > 0 {
					cookies = set
				}
				return w.Body.String()
			}
			ask("/put", "")
			for _, purpose := range []string{"prefetch", "prefetch;prerender"} {
				if got := ask("/show", purpose); got != "[] <nil>" {
					t.Errorf("%s gets %s", purpose, got)
				}
			}
			if got := ask("/show", ""); got != "[saved] <nil>" {
				t.Errorf("the page that is shown gets %s", got)
			}
		})
	}
}
