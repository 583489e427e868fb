package session_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

func put(key string, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { session.From(r.Context()).Put(key, v) }
}

func show(key string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := session.Get[any](session.From(r.Context()), key)
		fmt.Fprint(w, v, err)
	}
}

func TestLazy(t *testing.T) {
	t.Parallel()
	store := &counting{Store: sessionstore.NewMemory()}
	c := serve(t, routes{
		"/unused": func(w http.ResponseWriter, r *http.Request) { session.From(r.Context()); io.WriteString(w, "hi") },
		"/put":    put("k", 1), "/get": show("k"),
		"/nothing": func(http.ResponseWriter, *http.Request) {},
	}.behind(newManager(t, store)))
	wantPage(t, c, "/unused", 200, "hi")
	wantPage(t, c, "/nothing", 200, "")
	wantPage(t, c, "/get", 200, "<nil> <nil>") // the client has no cookie yet, so the store is not called
	if n := store.total(); n != 0 || c.Cookie != nil {
		t.Errorf("%d requests to the store, cookie %v, for a session that was not used", n, c.Cookie)
	}
	wantPage(t, c, "/put", 200, "")
	if c.Cookie == nil || store.commits != 1 || store.loads != 0 {
		t.Fatalf("a new session: cookie %v, %d commits, %d loads", c.Cookie, store.commits, store.loads)
	}
	id := c.Cookie.Value
	wantPage(t, c, "/unused", 200, "hi")
	if n := store.total(); n != 1 {
		t.Errorf("%d requests to the store for a session that was not used", n)
	}
	a := getPage(t, c, "/get")
	if a.Body != "1 <nil>" || a.Cookie != nil || store.commits != 1 || store.touches != 0 || c.Cookie.Value != id {
		t.Errorf("a reader: %+v, %d commits, %d touches", a, store.commits, store.touches)
	}
}

func TestCookieAndIDAtRest(t *testing.T) {
	t.Parallel()
	keys := &keeping{Store: sessionstore.NewMemory()}
	m, err := session.New(keys, session.Locker(newLocker(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t, routes{"/": put("k", 1)}.behind(m))
	k := getPage(t, c, "/").Cookie
	if k.Name != "__Host-session" || !k.Secure || !k.HttpOnly || k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" || k.MaxAge != 0 {
		t.Errorf("%+v", k)
	}
	raw, err := base64.RawURLEncoding.DecodeString(k.Value)
	if err != nil || len(raw) != 32 {
		t.Errorf("id %q", k.Value)
	}
	sum := sha256.Sum256([]byte(k.Value))
	if keys.last != base64.RawURLEncoding.EncodeToString(sum[:]) {
		t.Errorf("id %q is kept at %q", k.Value, keys.last)
	}
}

// keeping remembers the last key.
type keeping struct {
	sessionstore.Store
	last string
}

func (k *keeping) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	k.last = key
	return k.Store.Commit(ctx, key, c)
}

func TestHostileCookies(t *testing.T) {
	t.Parallel()
	store := &counting{Store: sessionstore.NewMemory()}
	c := serve(t, routes{"/get": show("k"), "/put": put("k", 1)}.behind(newManager(t, store)))
	for _, bad := range []string{
		"x", "../../etc/passwd", strings.Repeat("A", 42), strings.Repeat("A", 44), strings.Repeat("A", 100000/4), strings.Repeat("A", 42) + "B",
		strings.Repeat("A", 42) + "=", strings.Repeat("+", 43), "%00", "*", "{}",
	} {
		c.Cookie = &http.Cookie{Name: "session", Value: bad}
		wantPage(t, c, "/get", 200, "<nil> <nil>")
	}
	if n := store.total(); n != 0 {
		t.Errorf("the store was called %d times with malformed ids", n)
	}
	// An unknown id is not adopted, even if it has the right form.
	unknown := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	c.Cookie = &http.Cookie{Name: "session", Value: unknown}
	wantPage(t, c, "/put", 200, "")
	if c.Cookie.Value == unknown {
		t.Error("the client chose its id")
	}
	wantPage(t, c, "/get", 200, "1 <nil>")
}

// TestSavedBeforeTheFirstByte asks for the session while the first answer is
// still being written.
func TestSavedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(http.ResponseWriter) error{
		"Write":       func(w http.ResponseWriter) error { _, err := w.Write(make([]byte, 1<<16)); return err },
		"WriteString": func(w http.ResponseWriter) error { _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); return err },
		"WriteHeader": func(w http.ResponseWriter) error { w.WriteHeader(202); return http.NewResponseController(w).Flush() },
		"Flush":       func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"Controller":  func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
		"ReadFrom": func(w http.ResponseWriter) error {
			_, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<16)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan bool)
			c := serve(t, routes{
				"/slow": func(w http.ResponseWriter, r *http.Request) {
					s := session.From(r.Context())
					s.Put("k", 1)
					if err := begin(w); err != nil {
						t.Error(err)
					}
					if err := s.Put("late", 1); !errors.Is(err, session.ErrClosed) {
						t.Errorf("Put after the first byte: %v", err)
					}
					if n, err := session.Get[int](s, "k"); n != 1 || err != nil {
						t.Errorf("Get after the first byte: %d %v", n, err)
					}
					<-seen
				},
				"/get": show("k"),
			}.behind(newManager(t, sessionstore.NewMemory())))
			res, err := http.Get(c.Base(0) + "/slow")
			if err != nil {
				t.Fatal(err)
			}
			c.Cookie = res.Cookies()[0]
			wantPage(t, c, "/get", 200, "1 <nil>")
			close(seen)
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		})
	}
}

func TestInterimAnswersDoNotSave(t *testing.T) {
	t.Parallel()
	c := serve(t, routes{"/": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		if err := session.From(r.Context()).Put("k", 1); err != nil {
			t.Error(err)
		}
	}}.behind(newManager(t, sessionstore.NewMemory())))
	if a := getPage(t, c, "/"); a.Status != 200 || a.Cookie == nil {
		t.Errorf("%+v", a)
	}
}

// A handler can hijack the connection or flush, and an answer sets one cookie.
func TestHijack(t *testing.T) {
	t.Parallel()
	c := serve(t, routes{
		"/put": put("k", 1), "/get": show("k"),
		"/hijack": func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			s.Put("k", 2)
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			// A long connection makes each write in an Update.
			if err := s.Update(context.Background(), func(_ context.Context, tx *session.Session) error {
				n, err := session.Get[int](tx, "k")
				return errors.Join(err, tx.Put("k", n+10))
			}); err != nil {
				t.Error(err)
			}
			fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nown protocol")
			rw.Flush()
		},
		"/flush": func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			if err := errors.Join(s.Put("k", 1), s.Regenerate(r.Context())); err != nil {
				t.Error(err)
			}
			w.(http.Flusher).Flush()
		},
	}.behind(newManager(t, sessionstore.NewMemory())))
	wantPage(t, c, "/put", 200, "")
	wantPage(t, c, "/hijack", 200, "own protocol")
	wantPage(t, c, "/get", 200, "12 <nil>")
	res, err := http.Get(c.Base(0) + "/flush")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if set := res.Header["Set-Cookie"]; len(set) != 1 {
		t.Errorf("the answer sets %q", set)
	}
}

// TestEvents streams events on an Exclusive route. The stream calls Update to see the writes of
// other requests. Between these calls it holds no lock.
func TestEvents(t *testing.T) {
	t.Parallel()
	m := newManager(t, sessionstore.NewMemory())
	next := make(chan bool)
	h := routes{
		"/put": put("k", 1), "/put2": put("k", 2),
		"/events": func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			w.Header().Set("Content-Type", "text/event-stream")
			s.Put("streaming", true)
			for range 2 {
				var n int
				err := s.Update(r.Context(), func(_ context.Context, tx *session.Session) (err error) {
					n, err = session.Get[int](tx, "k")
					return err
				})
				fmt.Fprintf(w, "data: %d %v\n\n", n, err)
				w.(http.Flusher).Flush()
				<-next
			}
		},
	}
	c := serve(t, m.With(session.Exclusive)(h.behind(m)))
	wantPage(t, c, "/put", 200, "")
	req, _ := http.NewRequest("GET", c.Base(0)+"/events", nil)
	req.AddCookie(c.Cookie)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Scan()
	if lines.Text() != "data: 1 <nil>" {
		t.Error(lines.Text())
	}
	wantPage(t, c, "/put2", 200, "")
	next <- true
	lines.Scan()
	lines.Scan()
	if lines.Text() != "data: 2 <nil>" {
		t.Error(lines.Text())
	}
	next <- true
}

func TestDeadlinesReachTheConnection(t *testing.T) {
	t.Parallel()
	c := serve(t, routes{"/": func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
	}}.behind(newManager(t, sessionstore.NewMemory())))
	wantPage(t, c, "/", 200, "")
}

func TestPanicSavesNothingAndUnlocks(t *testing.T) {
	t.Parallel()
	m := newManager(t, sessionstore.NewMemory(), session.Exclusive)
	h := routes{
		"/put": put("k", 1), "/get": show("k"),
		"/panic": func(w http.ResponseWriter, r *http.Request) {
			put("k", 2)(w, r)
			panic(http.ErrAbortHandler)
		},
	}
	c := serve(t, h.behind(m))
	wantPage(t, c, "/put", 200, "")
	if _, err := c.Get(t.Context(), 0, "/panic"); err == nil {
		t.Error("the panic was swallowed")
	}
	wantPage(t, c, "/get", 200, "1 <nil>")
}

// TestClientGone: the writes of a handler are saved even if the client no longer waits for the
// answer.
func TestClientGone(t *testing.T) {
	t.Parallel()
	gone, done := make(chan bool), make(chan bool)
	c := serve(t, routes{
		"/put": put("k", 1), "/get": show("k"),
		"/slow": func(w http.ResponseWriter, r *http.Request) {
			put("k", 2)(w, r)
			gone <- true
			<-r.Context().Done()
			defer close(done)
			w.WriteHeader(200)
		},
	}.behind(newManager(t, sessionstore.NewMemory())))
	wantPage(t, c, "/put", 200, "")
	ctx, leave := context.WithCancel(t.Context())
	go c.Get(ctx, 0, "/slow")
	<-gone
	leave()
	<-done
	wantPage(t, c, "/get", 200, "2 <nil>")
}

// TestWaiterGone: if a client leaves, its request stops waiting for the lock at once, and writes
// nothing.
func TestWaiterGone(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan bool), make(chan bool)
	failed := make(chan error, 1)
	c := serve(t, routes{
		"/put": put("k", 1), "/get": show("k"),
		"/hold": func(w http.ResponseWriter, r *http.Request) { show("k")(httpDiscard{w}, r); inside <- true; <-leave },
		"/wait": func(w http.ResponseWriter, r *http.Request) {
			inside <- true
			failed <- session.From(r.Context()).Put("k", 2)
		},
	}.behind(newManager(t, sessionstore.NewMemory(), session.Exclusive)))
	wantPage(t, c, "/put", 200, "")
	held := make(chan bool)
	go func() { getPage(t, c, "/hold"); close(held) }()
	<-inside
	ctx, giveUp := context.WithCancel(t.Context())
	go c.Get(ctx, 0, "/wait")
	<-inside
	giveUp()
	if err := <-failed; err == nil {
		t.Error("it got the lock")
	}
	close(leave)
	<-held
	wantPage(t, c, "/get", 200, "1 <nil>")
}

// httpDiscard drops the body, so the answer does not begin.
type httpDiscard struct{ http.ResponseWriter }

func (httpDiscard) Write(p []byte) (int, error) { return len(p), nil }

func TestSlowReaderErasesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, goOn := make(chan bool), make(chan bool)
			c := serve(t, routes{
				"/put": put("k", 1), "/put2": put("k", 2), "/get": show("k"),
				"/slow": func(w http.ResponseWriter, r *http.Request) {
					v, _ := session.Get[int](session.From(r.Context()), "k")
					read <- true
					<-goOn
					fmt.Fprint(w, v)
				},
			}.behind(newManager(t, open(), session.IdleTimeout(time.Hour))))
			wantPage(t, c, "/put", 200, "")
			done := make(chan load.Answer)
			go func() { a, _ := c.Get(t.Context(), 0, "/slow"); done <- a }()
			<-read
			wantPage(t, c, "/put2", 200, "")
			goOn <- true
			if a := <-done; a.Body != "1" || a.Cookie != nil {
				t.Errorf("%+v", a)
			}
			wantPage(t, c, "/get", 200, "2 <nil>")
		})
	}
}

// framework is a ResponseWriter of a web framework, with the method Written that gin's writer has.
type framework struct {
	http.ResponseWriter
	written bool
}

func (f *framework) Written() bool { return f.written }

func (f *framework) WriteHeader(code int) { f.written = true; f.ResponseWriter.WriteHeader(code) }

func (f *framework) Write(p []byte) (int, error) {
	f.written = true
	return f.ResponseWriter.Write(p)
}

// past is an adapter that passes the request on to h, but not the ResponseWriter of the session.
func past(m *session.Manager, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer := &framework{ResponseWriter: w}
		m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { h(outer, r) })).ServeHTTP(outer, r)
	})
}

// TestAnswerPastTheSession: if the answer bypasses the session's writer, a new session would be
// lost. That is reported, and in development the request fails.
func TestAnswerPastTheSession(t *testing.T) {
	t.Parallel()
	handler := func(w http.ResponseWriter, r *http.Request) {
		s := session.From(r.Context())
		n, err := session.Get[int](s, "n")
		noError(t, err)
		noError(t, s.Put("n", n+1))
		fmt.Fprint(w, n+1)
	}
	for _, dev := range []bool{false, true} {
		var lost []error
		opts := []session.Option{session.OnEvent(func(_ context.Context, e session.Event) {
			if e.Kind == session.EventLost {
				lost = append(lost, e.Err)
			}
		})}
		if dev {
			opts = append(opts, session.Development())
		}
		store := &counting{Store: sessionstore.NewMemory()}
		m := newManager(t, store, opts...)
		panicked := func(r *http.Request) (v any) {
			defer func() { v = recover() }()
			past(m, handler).ServeHTTP(httptest.NewRecorder(), r)
			return nil
		}
		v := panicked(httptest.NewRequest("GET", "/", nil))
		if (v != nil) != dev || len(lost) != 1 || store.commits != 0 {
			t.Errorf("Development %v: panic %v, events %v, %d commits", dev, v, lost, store.commits)
		}
		b := newBrowser(t, m)
		b.putValue("n", 5)
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(b.cookie)
		if v := panicked(r); (v != nil) != dev {
			t.Errorf("Development %v, a known session: panic %v", dev, v)
		}
		has(b, "n", 6)
	}
}

// TestPanicWithRecoveryInside: a handler that recovers a panic inside of the session, and answers
// 500 for it, does not make the session save half of the handler's writes. An answer 500 without a
// panic saves them.
func TestPanicWithRecoveryInside(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
	b.putValue("n", 1)
	answer := func(panics bool) {
		b.answer(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(500)
				}
			}()
			session.From(r.Context()).Put("n", 2)
			if panics {
				panic("oops")
			}
			w.WriteHeader(500)
		})
	}
	answer(true)
	has(b, "n", 1)
	answer(false)
	has(b, "n", 2)
}
