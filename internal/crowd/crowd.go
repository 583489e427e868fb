// Package crowd checks sessions that many requests of one visitor use at once, for the tests of all
// stores and adapters of sessions.
package crowd

import (
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/session/sessiontest/load"
)

// Size is how many requests the crowds of most tests have.
const Size = 100

// Only checks that all answers have the status.
func Only(t testing.TB, r load.Report, status int) {
	t.Helper()
	if len(r.Errors) > 0 || len(r.Statuses) != 1 || r.Statuses[status] == 0 {
		t.Errorf("answers %v, errors %v, want only %d", r.Statuses, r.Errors, status)
	}
}

// KeepsAll has the requests of a plan of load.Set write a key each, and checks that none is lost.
func KeepsAll(t testing.TB, c *load.Client, p load.Plan) {
	t.Helper()
	r := c.Run(t.Context(), p)
	Only(t, r, http.StatusOK)
	if n, err := c.Kept(t.Context(), p.Requests); n != p.Requests || err != nil {
		t.Errorf("%d of %d kept in %v, %v", n, p.Requests, r.Wall, err)
	}
}

// Counts has the requests of a plan of load.Add or load.Incr count, and checks that the number is
// that of the requests that succeeded. If refuses is false, all must succeed.
func Counts(t testing.TB, c *load.Client, p load.Plan, refuses bool) {
	t.Helper()
	r := c.Run(t.Context(), p)
	n, err := c.Value(t.Context(), "n")
	refused := r.Statuses[http.StatusConflict]
	if err != nil || n == 0 || n+refused != p.Requests || n != r.Statuses[http.StatusOK] || refused > 0 && !refuses {
		t.Errorf("counted %d of %d, answers %v %v, %v", n, p.Requests, r.Statuses, r.Errors, err)
	}
}

// LogoutHolds logs out while five requests for path are at work: none of them brings the session
// back. Each of the five sends to inside, and then writes when goOn is closed.
func LogoutHolds(t testing.TB, c *load.Client, path string, inside <-chan bool, goOn chan<- bool) {
	t.Helper()
	const writers = 5
	done := make(chan load.Report)
	go func() {
		done <- c.Run(t.Context(), load.Plan{Requests: writers, Path: func(int) string { return path }})
	}()
	for range writers {
		<-inside
	}
	if a, err := c.Get(t.Context(), 0, "/logout"); err != nil || a.Status != http.StatusOK || a.Cookie == nil || a.Cookie.MaxAge >= 0 {
		t.Errorf("logout: %v %v", a, err)
	}
	close(goOn)
	Only(t, <-done, http.StatusConflict)
	if a, err := c.Get(t.Context(), 0, "/keys"); a.Body != "\n" || err != nil {
		t.Errorf("the session is back: %q %v", a.Body, err)
	}
}
