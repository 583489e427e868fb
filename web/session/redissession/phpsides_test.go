package redissession_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// The tests of this file show the table of docs/php.md: which promise about a shared session Go
// keeps, which PHP keeps, and which both keep.

const phpPrefix = "PHPREDIS_SESSION:"

// newSides starts both applications with the lines of php.ini that docs/php.md prints, and logs a
// visitor in at PHP. It returns the key of the session.
func newSides(t *testing.T, locks string) (*both, string) {
	t.Helper()
	b := newBoth(t, clientOption(startRedis(t).Addr()), phpSetup{"", phpcodec.PHP, patientLocks + locks}, phpsession.Config{}, session.Delta)
	b.getPage(b.php, "/login")
	return b, phpPrefix + b.php.Cookie.Value
}

// request sends a request with the visitor's cookie to Go, and calls f with its session.
func (b *both) request(f func(s *session.Session), opts ...session.RouteOption) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: b.golang.Cookie.Name, Value: b.golang.Cookie.Value})
	w := httptest.NewRecorder()
	b.m.With(opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) })).ServeHTTP(w, r)
	return w
}

// A slow is a request of Go that has read the session and is at work. finish lets it write.
type slow struct {
	goOn chan bool
	done chan *httptest.ResponseRecorder
}

func (b *both) start(write func(s *session.Session) error, opts ...session.RouteOption) *slow {
	r := &slow{make(chan bool), make(chan *httptest.ResponseRecorder, 1)}
	inside := make(chan bool)
	go func() {
		r.done <- b.request(func(s *session.Session) {
			_, err := s.Has("user")
			close(inside)
			<-r.goOn
			if err = errors.Join(err, write(s)); err != nil {
				b.t.Log(err)
			}
		}, opts...)
	}()
	<-inside
	return r
}

func (r *slow) finish() *httptest.ResponseRecorder {
	close(r.goOn)
	return <-r.done
}

// put is a handler that writes a key.
func put(key string) func(*session.Session) error {
	return func(s *session.Session) error { return s.Put(key, 1) }
}

// setsID returns the id that an answer of Go sets, or "".
func setsID(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		return c.Value
	}
	return ""
}

// inPHP sends a request to PHP in the background.
func (b *both) inPHP(path string) chan load.Answer {
	done := make(chan load.Answer, 1)
	c := *b.php
	go func() {
		a, err := c.Get(context.Background(), 0, path)
		if err != nil || a.Status != http.StatusOK {
			b.t.Errorf("%s: %d, %v", path, a.Status, err)
		}
		done <- a
	}()
	return done
}

// heldInPHP sends a request to PHP that stops at until(), and returns when it is there. The
// returned function lets it go on, and returns the answer.
func (b *both) heldInPHP(path string) func() load.Answer {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "f")
	done := b.inPHP(path + "until=" + file)
	eventually(b.t, "PHP is at work", func() bool { _, err := os.Stat(file + ".in"); return err == nil })
	return func() load.Answer {
		noError(b.t, os.WriteFile(file, nil, 0o600))
		return <-done
	}
}

// waitsInPHP sends a request to PHP that writes the key late, and returns when it waits for the
// session's lock, which another request has.
func (b *both) waitsInPHP() chan load.Answer {
	b.t.Helper()
	before := setsSoFar(b.t, b.raw)
	done := b.inPHP("/set?key=late&work=0s")
	eventually(b.t, "PHP waits for the lock", func() bool { return setsSoFar(b.t, b.raw) > before+3 })
	return done
}

// TestPHPWaitsOverAChange: while a request of PHP waits for the lock, Go changes the id or ends the
// session. PHP checks an id before it waits, and not after, so it makes the old id anew: what it
// writes is not in the session. No request of Go writes there. What was under way in Go is saved in
// the session with the new id, or gets 409.
func TestPHPWaitsOverAChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*session.Session) error
		status int
		reads  bool // the old id can still be read in Go
		left   int  // how many of the old and the new session a logout from before does not end
	}{
		"login":                        {func(s *session.Session) error { return s.Regenerate(context.Background()) }, 200, true, 0},
		"login without a grace period": {func(s *session.Session) error { return s.Regenerate(context.Background(), session.GracePeriod(0)) }, 409, false, 1},
		"logout":                       {func(s *session.Session) error { return s.Destroy(context.Background()) }, 409, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, key := newSides(t, "")
			before := b.start(put("slow"))
			logout := b.start(func(s *session.Session) error { return s.Destroy(context.Background()) })
			change := b.start(c.change, session.Exclusive)
			late := b.waitsInPHP()
			changed := change.finish()
			if <-late; changed.Code != http.StatusOK {
				t.Fatalf("%d %s", changed.Code, changed.Body)
			}
			if data := askServer(t, b.raw, "GET", key); data != "late|i:1;" {
				t.Errorf("PHP has made %q", data)
			}
			if w := before.finish(); w.Code != c.status {
				t.Errorf("a request of Go from before: %d, want %d", w.Code, c.status)
			}
			after := b.request(func(s *session.Session) {
				if ok, err := s.Has("user"); ok != c.reads || err != nil {
					t.Errorf("a request of Go with the old id finds the user: %v, %v", ok, err)
				}
				if ok, _ := s.Has("late"); ok {
					t.Error("a request of Go with the old id finds what PHP has written")
				}
			})
			if id := setsID(after); id != "" {
				t.Errorf("a request that reads sets the id %s", id)
			}
			if w := b.request(func(s *session.Session) { s.Put("after", 1) }); c.reads && w.Code != http.StatusConflict {
				t.Errorf("a write with the old id: %d", w.Code)
			}
			if data := askServer(t, b.raw, "GET", key); data != "late|i:1;" {
				t.Errorf("Go has written at the old id: %q", data)
			}
			data := askServer(t, b.raw, "GET", phpPrefix+setsID(changed))
			if strings.Contains(data, "slow") != (c.status == 200) || strings.Contains(data, "late") {
				t.Errorf("the session is %q", data)
			}
			if w := logout.finish(); w.Code != http.StatusOK || askServer(t, b.raw, "EXISTS", phpPrefix+setsID(changed), key) != fmt.Sprint(c.left) {
				t.Errorf("a logout of Go from before: %d, and the session lives on", w.Code)
			}
		})
	}
}

// TestPHPOldID: after a login in Go, Go still serves requests with the old id. PHP knows nothing of
// the old id. It gives the visitor a new, empty session, and a logout in PHP does not end the
// session.
func TestPHPOldID(t *testing.T) {
	t.Parallel()
	b, _ := newSides(t, "")
	login := b.request(func(s *session.Session) { noError(t, s.Regenerate(t.Context())) })
	if w := b.request(func(s *session.Session) {
		if ok, err := s.Has("user"); !ok || err != nil {
			t.Errorf("Go: %v %v", ok, err)
		}
	}); w.Code != http.StatusOK || setsID(w) != "" {
		t.Errorf("Go answers %d and sets %q", w.Code, setsID(w))
	}
	out := <-b.inPHP("/logout")
	user := <-b.inPHP("/user")
	if user.Cookie == nil || user.Cookie.Value == b.php.Cookie.Value || user.Cookie.Value == setsID(login) || strings.TrimSpace(user.Body) != "nobody" {
		t.Errorf("PHP answers %q and sets %v", user.Body, user.Cookie)
	}
	if out.Status != http.StatusOK || askServer(t, b.raw, "EXISTS", phpPrefix+setsID(login)) != "1" {
		t.Errorf("after a logout in PHP (%d) the session has ended", out.Status)
	}
}

// TestPHPChangesTheID: PHP gives the session a new id while Go works with it. If PHP deletes the old
// session, the write of Go is refused; a logout in Go with the old id ends nothing. If PHP keeps the
// old session, Go's write is there.
func TestPHPChangesTheID(t *testing.T) {
	t.Parallel()
	for remove, status := range map[string]int{"1": http.StatusConflict, "0": http.StatusOK} {
		b, key := newSides(t, "")
		slow := b.start(put("slow"))
		changed := b.heldInPHP("/regenerate?delete=" + remove + "&")()
		if w := slow.finish(); w.Code != status {
			t.Errorf("delete=%s: %d, want %d", remove, w.Code, status)
		}
		if old := askServer(t, b.raw, "GET", key); strings.Contains(old, "slow") != (remove == "0") {
			t.Errorf("delete=%s: the old session is %q", remove, old)
		}
		if w := b.request(func(s *session.Session) { noError(t, s.Destroy(t.Context())) }); w.Code != http.StatusOK {
			t.Errorf("a logout with the old id: %d", w.Code)
		}
		if session := askServer(t, b.raw, "GET", phpPrefix+changed.Cookie.Value); !strings.Contains(session, "user") || strings.Contains(session, "slow") {
			t.Errorf("delete=%s: the session is %q", remove, session)
		}
	}
}

// TestPHPWaitsOverPHP: while a request of PHP waits for the lock, another one of PHP changes the id
// or ends the session. PHP leaves no trace of that, so a late request of Go takes what the first one
// makes for its session. It does not if it watches a key that the session had, and the user that
// SetUser has named is watched.
func TestPHPWaitsOverPHP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, write func(*session.Session) error
		status        int
	}{
		"nothing is watched": {put("before"), put("slow"), 200},
		"Watch":              {put("before"), func(s *session.Session) error { return errors.Join(s.Watch("user"), s.Put("slow", 1)) }, 409},
		"SetUser":            {func(s *session.Session) error { return s.SetUser("ann") }, put("slow"), 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, key := newSides(t, "")
			b.request(func(s *session.Session) { noError(t, c.before(s)) })
			slow := b.start(c.write)
			change := b.heldInPHP("/regenerate?delete=1&")
			late := b.waitsInPHP()
			change()
			<-late
			status := c.status
			if strings.Contains(askServer(t, b.raw, "GET", key), "user|") {
				status = 200 // PHP has brought the whole session back, so nothing that is watched has changed
			}
			if w := slow.finish(); w.Code != status {
				t.Errorf("%d, want %d", w.Code, status)
			}
			if data := askServer(t, b.raw, "GET", key); strings.Contains(data, "slow") != (status == 200) {
				t.Errorf("%q", data)
			}
		})
	}
}

// TestPHPLogout: after a logout in PHP, a request of Go that was under way does not bring the
// session back. A logout in Go waits for a request of PHP that is under way.
func TestPHPLogout(t *testing.T) {
	t.Parallel()
	b, key := newSides(t, "")
	slow := b.start(put("slow"))
	<-b.inPHP("/logout")
	if w := slow.finish(); w.Code != http.StatusConflict || askServer(t, b.raw, "EXISTS", key) != "0" {
		t.Errorf("a write after the logout: %d", w.Code)
	}
	b.getPage(b.php, "/login")
	key = phpPrefix + b.php.Cookie.Value
	release := b.heldInPHP("/held?key=late&")
	out := make(chan *httptest.ResponseRecorder, 1)
	before := setsSoFar(t, b.raw)
	go func() { out <- b.request(func(s *session.Session) { s.Destroy(context.Background()) }) }()
	eventually(t, "Go waits for the lock", func() bool { return setsSoFar(t, b.raw) > before+3 })
	release()
	if w := <-out; w.Code != http.StatusOK || askServer(t, b.raw, "EXISTS", key) != "0" {
		t.Errorf("the logout: %d", w.Code)
	}
}

// TestPHPWithoutItsLock: a request of PHP that only reads, or has closed its session, has no lock.
// It neither keeps Go waiting, nor overwrites what Go writes meanwhile.
func TestPHPWithoutItsLock(t *testing.T) {
	t.Parallel()
	b, key := newSides(t, "")
	for _, path := range []string{"/readonly?", "/early?key=early&"} {
		release := b.heldInPHP(path)
		if w := b.request(func(s *session.Session) { noError(t, s.Put("go", path)) }, session.Exclusive, session.MaxWait(10*time.Second)); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		release()
		if data := askServer(t, b.raw, "GET", key); !strings.Contains(data, path) {
			t.Errorf("%s: Go's write is lost: %q", path, data)
		}
	}
}

// TestPHPLifetimes: PHP sets its own lifetime with each request, even if Go has set another one. The
// next request of Go sets Go's again.
func TestPHPLifetimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(*session.Session) error
		want time.Duration
	}{
		"remembered": {func(s *session.Session) error { return s.Remember(24 * time.Hour) }, 24 * time.Hour},
		"deadline":   {func(s *session.Session) error { return s.SetDeadline(time.Now().Add(10 * time.Minute)) }, 10 * time.Minute},
	} {
		b, key := newSides(t, "")
		lives := func(after string, want time.Duration) {
			t.Helper()
			ms, err := time.ParseDuration(askServer(t, b.raw, "PTTL", key) + "ms")
			if err != nil || ms > want || ms < want-time.Minute {
				t.Errorf("%s: after a request of %s, it lives for %v, want %v", name, after, ms, want)
			}
		}
		b.request(func(s *session.Session) { noError(t, c.set(s)) })
		lives("Go", c.want)
		<-b.inPHP("/user")
		lives("PHP", phpsession.IdleTimeout)
		b.request(func(s *session.Session) { s.Has("user") })
		if c.want > phpsession.IdleTimeout { // Go prolongs, and does not shorten
			lives("Go", c.want)
		}
	}
}

// TestPHPUserIndex: PHP gives a session of a known user a new id. EndUserSessions finds it once Go
// has seen it there.
func TestPHPUserIndex(t *testing.T) {
	t.Parallel()
	b, _ := newSides(t, "")
	b.request(func(s *session.Session) { noError(t, s.SetUser("ann")) })
	b.php.Cookie = b.heldInPHP("/regenerate?delete=1&")().Cookie
	b.golang.Cookie = b.php.Cookie
	for _, want := range []int{0, 1} {
		if n, err := b.m.EndUserSessions(t.Context(), "ann"); n != want || err != nil {
			t.Errorf("%d sessions ended, %v, want %d", n, err, want)
		}
		b.request(func(s *session.Session) { s.Has("user") }, session.ReadOnly)
	}
	b.want(b.php, "/user", "nobody")
}

// TestPHPEncodedID: with 6 bits in each letter, ids have commas, which PHP encodes in its cookie.
func TestPHPEncodedID(t *testing.T) {
	t.Parallel()
	b, _ := newSides(t, "session.sid_length = 256\nsession.sid_bits_per_character = 6\n")
	for range 100 {
		if strings.Contains(b.php.Cookie.Value, "%2C") {
			break
		}
		b.php.Cookie = nil
		b.getPage(b.php, "/login")
	}
	id := b.php.Cookie.Value
	b.getPage(b.golang, "/set?key=go&work=0s")
	if b.golang.Cookie.Value != id || !strings.Contains(id, "%2C") {
		t.Errorf("PHP set %s, and Go set %s", id, b.golang.Cookie.Value)
	}
	b.want(b.php, "/json?key=go", "1")
	w := b.request(func(s *session.Session) { noError(t, s.Remember(time.Hour)) })
	if setsID(w) != id {
		t.Errorf("Go set %s, want %s", setsID(w), id)
	}
}

// TestPHPTwoCookies: of two cookies with one name, both sides take the first.
func TestPHPTwoCookies(t *testing.T) {
	t.Parallel()
	b, _ := newSides(t, "")
	first := b.php.Cookie
	b.getPage(b.golang, "/set?key=first&work=0s")
	b.php.Cookie = nil
	b.getPage(b.php, "/login")
	for _, base := range []string{b.php.Base(0) + "/json?key=first", b.golang.Base(0) + "/value?key=first"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
		noError(t, err)
		r.AddCookie(&http.Cookie{Name: first.Name, Value: first.Value})
		r.AddCookie(&http.Cookie{Name: first.Name, Value: b.php.Cookie.Value})
		res, err := http.DefaultClient.Do(r)
		noError(t, err)
		body, err := io.ReadAll(res.Body)
		noError(t, errors.Join(err, res.Body.Close()))
		if strings.TrimSpace(string(body)) != "1" {
			t.Errorf("%s: %s", base, body)
		}
	}
}
