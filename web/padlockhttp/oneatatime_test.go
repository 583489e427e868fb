package padlockhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/padlock-go/padlock/web/padlockhttp"
)

func byCart(r *http.Request) string {
	if cart := r.Header.Get("Cart"); cart != "" {
		return "cart:" + cart
	}
	return ""
}

// perCart wraps a handler, so that one request at a time works on a cart.
func perCart(l *padlock.Locker, f http.HandlerFunc, opts ...padlock.Option) http.Handler {
	return padlockhttp.OneAtATime{Locker: l, Key: byCart, Options: opts}.Wrap(f)
}

// post sends a request for cart 7 and returns the answer.
func post(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	r.Header.Set("Cart", "7")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// within returns a context that ends after a time that no test needs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// cancellable returns such a context, and a function that ends it.
func cancellable(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(within(t))
	t.Cleanup(cancel)
	return ctx, cancel
}

// wantProblem checks an answer that is a problem.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, retry string) {
	t.Helper()
	var p struct {
		Title, Detail string
		Status        int
	}
	body := w.Body.String()
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Title == "" || p.Detail == "" || p.Status != status || w.Code != status {
		t.Errorf("%d, %q, %v; want a problem with status %d", w.Code, body, err, status)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	if got := w.Header().Get("Retry-After"); got != retry {
		t.Errorf("Retry-After is %q, want %q", got, retry)
	}
}

func TestASecondRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h := perCart(l, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
		free := script.Hold("cart:7", padlock.Hold{Holder: driver.Holder{Host: "web-3", PID: 4121, Label: "secret label"}})
		w := post(t.Context(), h)
		wantProblem(t, w, http.StatusConflict, "1")
		for _, secret := range []string{"web-3", "4121", "secret label", "cart:7"} {
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("the answer names %q", secret)
			}
		}
		free()
		script.Hold("cart:7", padlock.Hold{PlannedEnd: time.Now().Add(time.Minute)})
		wantProblem(t, post(t.Context(), h), http.StatusConflict, "60")
	})
}

func TestARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h := perCart(l, func(w http.ResponseWriter, r *http.Request) {
			if fence, ok := padlock.FenceFrom(r.Context()); !ok || fence == 0 {
				t.Error("the context has no fence")
			}
			io.WriteString(w, "done")
		}, padlock.Wait(5*time.Second))
		time.AfterFunc(2*time.Second, script.Hold("cart:7", padlock.Hold{}))
		start := time.Now()
		if w := post(t.Context(), h); w.Code != http.StatusOK || w.Body.String() != "done" || time.Since(start) < 2*time.Second {
			t.Errorf("%d %q after %v", w.Code, w.Body, time.Since(start))
		}
		if err := l.TryDo(t.Context(), "cart:7", func(context.Context) error { return nil }); err != nil {
			t.Errorf("after the answer: %v", err)
		}
	})
}

// The wait ends early enough for an answer.
func TestTheWaitEndsBeforeTheServersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		h := perCart(l, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }, padlock.Wait(time.Minute))
		defer script.Hold("cart:7", padlock.Hold{})()
		start := time.Now()
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: 10 * time.Second})
		wantProblem(t, post(ctx, h), http.StatusConflict, "1")
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("the answer came after %v", d)
		}
	})
}

func TestARequestWithoutAKeyNeedsNoLock(t *testing.T) {
	l, script := padlocktest.New(t)
	script.Down()
	w := httptest.NewRecorder()
	perCart(l, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusTeapot {
		t.Error(w.Code)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		retry  string
	}{
		"held":             {padlock.ErrHeld, http.StatusConflict, "1"},
		"too many wait":    {padlock.ErrTooManyWaiters, http.StatusConflict, "1"},
		"invalid":          {padlock.ErrInvalid, http.StatusBadRequest, ""},
		"unavailable":      {padlock.ErrUnavailable, http.StatusServiceUnavailable, "1"},
		"uncertain":        {padlock.ErrUncertain, http.StatusServiceUnavailable, "1"},
		"the client left":  {context.Canceled, http.StatusServiceUnavailable, "1"},
		"waits for itself": {padlock.ErrAlreadyHeld, http.StatusInternalServerError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			padlockhttp.Refuse(w, c.err)
			wantProblem(t, w, c.status, c.retry)
		})
	}
}

func TestALossEndsTheRequest(t *testing.T) {
	l, script := padlocktest.New(t)
	for name, begins := range map[string]bool{"before the answer": false, "after the answer has begun": true} {
		t.Run(name, func(t *testing.T) {
			w := post(within(t), perCart(l, func(w http.ResponseWriter, r *http.Request) {
				if begins {
					io.WriteString(w, "half of it")
				}
				w.Header().Set("Content-Length", "100")
				script.Lose("cart:7")
				<-r.Context().Done()
				if err := context.Cause(r.Context()); !errors.Is(err, padlock.ErrLost) {
					t.Errorf("the request ended with %v", err)
				}
			}))
			if begins {
				if w.Code != http.StatusOK || w.Body.String() != "half of it" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
				return
			}
			wantProblem(t, w, http.StatusInternalServerError, "")
			if w.Header().Get("Content-Length") != "" {
				t.Error("the problem has the length of the handler's answer")
			}
		})
	}
}

// Locker.Close ends the lock of a request at work. Its handler returns early, and must not look as
// if it had succeeded.
func TestTheLockerIsClosedDuringTheWork(t *testing.T) {
	l, _ := padlocktest.New(t)
	w := post(within(t), perCart(l, func(_ http.ResponseWriter, r *http.Request) {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	wantProblem(t, w, http.StatusInternalServerError, "")
}

// The lock is released although the client has gone and the handler panics.
func TestTheLockIsReleased(t *testing.T) {
	l, _ := padlocktest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	post(ctx, perCart(l, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic is gone")
			}
		}()
		post(t.Context(), perCart(l, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	}()
	if w := post(t.Context(), perCart(l, func(http.ResponseWriter, *http.Request) {})); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
}

// A handler streams through the middleware, in both ways that handlers use, and may take over the
// connection.
func TestStreaming(t *testing.T) {
	l, _ := padlocktest.New(t)
	next := make(chan struct{})
	s := httptest.NewServer(perCart(l, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nby hand\n")
			rw.Flush()
			conn.Close()
			return
		}
		io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, "two\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-next
		io.Copy(w, strings.NewReader("three\n"))
	}))
	defer s.Close()
	line := streamOf(t, s.URL)
	for _, want := range []string{"one", "two", "three"} {
		if got := line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if want != "three" {
			next <- struct{}{}
		}
	}
	if got := streamOf(t, s.URL+"/hijack")(); got != "by hand" {
		t.Errorf("%q", got)
	}
}

// streamOf sends a request for cart 7 and returns a function that reads a line of the answer.
func streamOf(t *testing.T, url string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cart", "7")
	r.Header.Set("Idempotency-Key", `"stream"`)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reply.Body.Close() })
	lines := bufio.NewScanner(reply.Body)
	return func() string {
		lines.Scan()
		return lines.Text()
	}
}

func TestMissingFieldsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"OneAtATime":  func() { padlockhttp.OneAtATime{}.Wrap(http.NotFoundHandler()) },
		"Idempotency": func() { padlockhttp.Idempotency{}.Wrap(http.NotFoundHandler()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
