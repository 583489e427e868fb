package load

import (
	"net/http"
	"testing"
)

// CrowdSize is how many requests the crowds of most tests have.
const CrowdSize = 100

// CheckAll checks that all answers have the status.
func CheckAll(t testing.TB, r Report, status int) {
	t.Helper()
	if len(r.Errors) > 0 || len(r.Statuses) != 1 || r.Statuses[status] == 0 {
		t.Errorf("answers %v, errors %v, want only %d", r.Statuses, r.Errors, status)
	}
}

// CheckKept has the requests of a plan of Set write a key each, and checks that none is lost.
func CheckKept(t testing.TB, c *Client, p Plan) {
	t.Helper()
	r := c.Run(t.Context(), p)
	CheckAll(t, r, http.StatusOK)
	if n, err := c.Kept(t.Context(), p.Requests); n != p.Requests || err != nil {
		t.Errorf("%d of %d kept in %v, %v", n, p.Requests, r.Wall, err)
	}
}

// CheckCount has the requests of a plan of Add or Incr count, and checks that the number is
// that of the requests that succeeded. If refuses is false, all must succeed.
func CheckCount(t testing.TB, c *Client, p Plan, refuses bool) {
	t.Helper()
	r := c.Run(t.Context(), p)
	n, err := c.Value(t.Context(), "n")
	refused := r.Statuses[http.StatusConflict]
	if err != nil || n == 0 || n+refused != p.Requests || n != r.Statuses[http.StatusOK] || refused > 0 && !refuses {
		t.Errorf("counted %d of %d, answers %v %v, %v", n, p.Requests, r.Statuses, r.Errors, err)
	}
}

// CheckLogout logs out while five requests for path are at work: none of them brings the session
// back. Each of the five sends to inside, and then writes when goOn is closed.
func CheckLogout(t testing.TB, c *Client, path string, inside <-chan bool, goOn chan<- bool) {
	t.Helper()
	const writers = 5
	done := make(chan Report)
	go func() {
		done <- c.Run(t.Context(), Plan{Requests: writers, Path: func(int) string { return path }})
	}()
	for range writers {
		<-inside
	}
	if a, err := c.Get(t.Context(), 0, "/logout"); err != nil || a.Status != http.StatusOK || a.Cookie == nil || a.Cookie.MaxAge >= 0 {
		t.Errorf("logout: %v %v", a, err)
	}
	close(goOn)
	CheckAll(t, <-done, http.StatusConflict)
	if a, err := c.Get(t.Context(), 0, "/keys"); a.Body != "\n" || err != nil {
		t.Errorf("the session is back: %q %v", a.Body, err)
	}
}
