package padlockhttp_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/padlockhttp"
)

// A success may say when the client shall ask for the result.
func TestASuccessWithRetryAfterIsKept(t *testing.T) {
	s, _ := newShop(t)
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusAccepted)
	}
	for range 2 {
		if w := s.pay(`"k"`, ""); w.Code != http.StatusAccepted || w.Header().Get("Retry-After") != "30" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	if s.runs.Load() != 1 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

// A OneAtATime inside loses its lock, or the Locker is closed. Only a success is kept.
func TestALockInsideIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		runs   int32
	}{"nothing is written": {0, 2}, "an error": {409, 2}, "a success": {201, 1}} {
		t.Run(name, func(t *testing.T) {
			s, script := newShop(t)
			s.Keep = func(int) bool { return true }
			s.serve = padlockhttp.OneAtATime{Locker: s.Locker, Key: func(*http.Request) string { return "cart:7" }}.
				Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					script.Lose("cart:7")
					if <-r.Context().Done(); c.status != 0 {
						w.WriteHeader(c.status)
					}
				})).ServeHTTP
			for range 2 {
				if w := s.pay(`"k"`, ""); w.Code != cmp.Or(c.status, 500) {
					t.Error(w.Code)
				}
			}
			if s.runs.Load() != c.runs {
				t.Errorf("%d runs, want %d", s.runs.Load(), c.runs)
			}
		})
	}
}

// A stream is cut, because the client has gone or the lock was lost. A repeat does not get the part
// that was sent as if it were the whole answer.
func TestAStreamThatIsCut(t *testing.T) {
	for name, lost := range map[string]bool{"the lock is lost": true, "the client has gone": false} {
		t.Run(name, func(t *testing.T) {
			s, script := newShop(t)
			ctx, cancel := cancellable(t)
			s.serve = func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "one\n")
				http.NewResponseController(w).Flush()
				if lost {
					states, _ := s.Locker.List(t.Context(), "")
					script.Lose(states[0].Name)
				} else {
					cancel()
				}
				<-r.Context().Done()
			}
			s.pay(`"k"`, "", func(r *http.Request) { *r = *r.WithContext(ctx) })
			if wantProblem(t, s.pay(`"k"`, ""), http.StatusGone, ""); s.runs.Load() != 1 {
				t.Errorf("%d runs", s.runs.Load())
			}
		})
	}
}

// Trailers that are set after a flush reach the first client. A repeat gets the answer without them.
func TestTrailers(t *testing.T) {
	s, _ := newShop(t)
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		http.NewResponseController(w).Flush()
		w.Header().Set("X-Sum", "841a2d68")
	}
	first, again := s.pay(`"k"`, "").Result(), s.pay(`"k"`, "").Result()
	if first.Trailer.Get("X-Sum") != "841a2d68" {
		t.Errorf("%v, trailers %v", first.Header, first.Trailer)
	}
	body, _ := io.ReadAll(again.Body)
	if again.Header.Get("Idempotent-Replayed") == "" || string(body) != "body" || len(again.Trailer) != 0 {
		t.Errorf("the repeat: %v %q, trailers %v", again.Header, body, again.Trailer)
	}
}

// The waits for both locks of a request share 70 % of the server's WriteTimeout. A lock that is
// free is taken even later.
func TestTwoWaitsWithinTheServersTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, script := newShop(t)
		inside := padlockhttp.OneAtATime{
			Locker: s.Locker, Key: func(*http.Request) string { return "cart:7" }, Options: []padlock.Option{padlock.Wait(time.Minute)},
		}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		pause := 3 * time.Second
		s.serve = func(w http.ResponseWriter, r *http.Request) {
			<-time.After(pause)
			inside.ServeHTTP(w, r)
		}
		server := func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: 10 * time.Second}))
		}
		free := script.Hold("cart:7", padlock.Hold{})
		start := time.Now()
		wantProblem(t, s.pay(`"k"`, "", server), http.StatusConflict, "1")
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("the answer came after %v", d)
		}
		pause = 8 * time.Second
		wantProblem(t, s.pay(`"k"`, "", server), http.StatusConflict, "1")
		free()
		if w := s.pay(`"k"`, "", server); w.Code != http.StatusCreated {
			t.Error(w.Code)
		}
	})
}

// The client goes, and the work goes on, as the documentation says how; the loss of the lock still
// ends it. The handler finds the key as it is compared.
func TestTheWorkGoesOnWithoutTheClient(t *testing.T) {
	for header, want := range map[string]string{`"k\"1"`: `k"1`, `"k1"`: "k1", `k1`: "k1"} {
		s, script := newShop(t)
		ctx, cancel := cancellable(t)
		s.serve = func(_ http.ResponseWriter, r *http.Request) {
			if key := padlockhttp.KeyOf(r); key != want {
				t.Errorf("%s: the key is %q", header, key)
			}
			if cancel(); r.Context().Err() != nil {
				t.Error("the work ended with the client")
			}
			states, _ := s.Locker.List(t.Context(), "")
			script.Lose(states[0].Name)
			<-r.Context().Done()
		}
		s.pay(header, "", func(r *http.Request) { *r = *r.WithContext(context.WithoutCancel(ctx)) })
		if s.runs.Load() != 1 {
			t.Error("the handler did not run")
		}
	}
	if key := padlockhttp.KeyOf(httptest.NewRequest(http.MethodPost, "/", nil)); key != "" {
		t.Errorf("without the header the key is %q", key)
	}
}
