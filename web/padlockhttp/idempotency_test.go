package padlockhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/padlock-go/padlock/web/padlockhttp"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// A shop charges a card for every request that its handler gets.
type shop struct {
	padlockhttp.Idempotency
	runs  atomic.Int32
	serve http.HandlerFunc // in place of a charge
	errs  []error
}

func newShop(t *testing.T) (*shop, *padlocktest.Script) {
	t.Helper()
	l, script := padlocktest.New(t)
	s := &shop{}
	s.Idempotency = padlockhttp.Idempotency{
		Locker: l, Results: &padlockhttp.Memory{},
		Scope:   func(r *http.Request) string { return r.Header.Get("User") },
		OnError: func(_ *http.Request, err error) { s.errs = append(s.errs, err) },
	}
	return s, script
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.runs.Add(1)
		if s.serve != nil {
			s.serve(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d: %s", n, body)
	})).ServeHTTP(w, r)
}

// pay sends a request with a key, unless the key is "".
func (s *shop) pay(key, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Outer", "set by another middleware")
	s.ServeHTTP(w, r)
	return w
}

func TestARepeatGetsTheFirstAnswer(t *testing.T) {
	s, _ := newShop(t)
	first := s.pay(`"k1"`, "7 EUR")
	for _, key := range []string{`"k1"`, "k1", ` "k1" ; v=1`} {
		again := s.pay(key, "7 EUR")
		if again.Code != http.StatusCreated || again.Body.String() != "charge 1: 7 EUR" || again.Header().Get("Location") != "/charges/1" {
			t.Errorf("%s: %d %q %v", key, again.Code, again.Body, again.Header())
		}
		if first.Header().Get("Idempotent-Replayed") != "" || again.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: the header does not tell the repeat from the first answer", key)
		}
	}
	if w := s.pay(`"k1"`, "8 EUR"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d", w.Code)
	}
	if w := s.pay(`"k1"`, "7 EUR", func(r *http.Request) { r.URL.Path = "/refunds" }); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("another URL: %d", w.Code)
	}
	for _, user := range []string{"ann", "eve"} { // two users with the same key
		if w := s.pay(`"k1"`, "7 EUR", func(r *http.Request) { r.Header.Set("User", user) }); w.Header().Get("Idempotent-Replayed") != "" {
			t.Errorf("%s got %q", user, w.Body)
		}
	}
	if w := s.pay(`"k1"`, "7 EUR", func(r *http.Request) { r.Method = http.MethodPut }); w.Body.String() != "charge 4: 7 EUR" {
		t.Errorf("PUT, which needs no key, got %q", w.Body)
	}
	if s.pay("", "7 EUR"); s.runs.Load() != 5 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

func TestKeys(t *testing.T) {
	s, _ := newShop(t)
	s.Required = true
	for _, key := range []string{"", `"`, `"a`, `""`, `"a"b`, `a b`, `a,b`, `"ä"`, `"a\b"`, strings.Repeat("k", 256)} {
		wantProblem(t, s.pay(key, ""), http.StatusBadRequest, "")
	}
	wantProblem(t, s.pay("a", "", func(r *http.Request) { r.Header.Add("Idempotency-Key", "b") }), http.StatusBadRequest, "")
	if s.runs.Load() != 0 {
		t.Error("the handler ran")
	}
	for _, key := range []string{`"a b"`, `"a\"b"`, strings.Repeat("k", 255)} {
		if w := s.pay(key, ""); w.Code != http.StatusCreated {
			t.Errorf("%s: %d", key, w.Code)
		}
	}
}

// Of eight requests at once one runs; the others get 409, and its answer when they come again.
func TestRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShop(t)
		s.serve = func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Second)
			w.WriteHeader(http.StatusCreated)
		}
		var wg sync.WaitGroup
		var created, conflicts atomic.Int32
		for range 8 {
			wg.Go(func() {
				switch w := s.pay(`"k"`, ""); w.Code {
				case http.StatusCreated:
					created.Add(1)
				case http.StatusConflict:
					wantProblem(t, w, http.StatusConflict, "1")
					conflicts.Add(1)
				}
			})
		}
		wg.Wait()
		if created.Load() != 1 || conflicts.Load() != 7 || s.runs.Load() != 1 {
			t.Errorf("%d created, %d conflicts, %d runs", created.Load(), conflicts.Load(), s.runs.Load())
		}
		s.Options = []padlock.Option{padlock.Wait(5 * time.Second)}
		for range 8 { // now they wait
			wg.Go(func() {
				if w := s.pay(`"k2"`, ""); w.Code != http.StatusCreated {
					t.Error(w.Code)
				}
			})
		}
		wg.Wait()
		if s.runs.Load() != 2 {
			t.Errorf("%d runs", s.runs.Load())
		}
		<-time.After(padlockhttp.DefaultKeepFor)
		if s.pay(`"k"`, ""); s.runs.Load() != 3 {
			t.Error("the answer is kept for longer than KeepFor")
		}
	})
}

// A repeat that comes while the lock is still held gets the answer, if it is kept.
func TestARepeatNeedsNoLock(t *testing.T) {
	s, script := newShop(t)
	s.pay(`"k"`, "")
	states, err := s.Locker.List(t.Context(), "idempotency:")
	if err != nil || len(states) > 0 {
		t.Fatal(states, err)
	}
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		states, err = s.Locker.List(t.Context(), "idempotency:")
	}
	if s.pay(`"k2"`, ""); len(states) != 1 {
		t.Fatal(states, err)
	}
	defer script.Hold(states[0].Name, padlock.Hold{})()
	if w := s.pay(`"k2"`, ""); w.Code != http.StatusOK || w.Header().Get("Idempotent-Replayed") == "" {
		t.Error(w.Code)
	}
	if w := s.pay(`"k2"`, "other"); w.Code != http.StatusUnprocessableEntity {
		t.Error(w.Code)
	}
}

func TestWhichAnswersAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		keep   func(int) bool
		runs   int32
	}{
		"a success":                  {200, nil, 1},
		"an error of the client":     {404, nil, 1},
		"an error of the server":     {500, nil, 2},
		"the application decides so": {404, func(status int) bool { return status < 300 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newShop(t)
			s.Keep = c.keep
			s.serve = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "text", c.status) }
			for range 2 {
				if w := s.pay(`"k"`, ""); w.Code != c.status || w.Body.String() != "text\n" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			}
			if s.runs.Load() != c.runs {
				t.Errorf("%d runs, want %d", s.runs.Load(), c.runs)
			}
		})
	}
}

// A handler inside says that the client shall come again. When it does, the handler runs.
func TestAnAnswerThatSaysComeAgain(t *testing.T) {
	s, script := newShop(t)
	handled := 0
	inside := padlockhttp.OneAtATime{Locker: s.Locker, Key: func(*http.Request) string { return "cart:7" }}.
		Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ }))
	s.serve = inside.ServeHTTP
	free := script.Hold("cart:7", padlock.Hold{})
	wantProblem(t, s.pay(`"k"`, ""), http.StatusConflict, "1")
	free()
	for range 2 {
		if w := s.pay(`"k"`, ""); w.Code != http.StatusOK || handled != 1 {
			t.Errorf("%d, handled %d times", w.Code, handled)
		}
	}
}

// If the context of the request ends during the work, a success is kept, and nothing else.
func TestTheRequestEndsDuringTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		status int // 0: the handler writes nothing
		want   int
		runs   int32
	}{
		"nothing is written": {0, 500, 2},
		"a success":          {201, 201, 1},
		"an error":           {409, 409, 2},
	} {
		for how, lost := range map[string]bool{"the lock is lost": true, "the client has gone": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				s, script := newShop(t)
				s.Results = &broken{Results: s.Results}
				ctx, cancel := cancellable(t)
				s.serve = func(w http.ResponseWriter, r *http.Request) {
					if cancel(); lost {
						states, _ := s.Locker.List(t.Context(), "")
						script.Lose(states[0].Name)
					}
					if <-r.Context().Done(); c.status != 0 {
						w.WriteHeader(c.status)
					}
				}
				for range 2 {
					w := s.pay(`"k"`, "", func(r *http.Request) {
						if lost {
							cancel = func() {}
						}
						*r = *r.WithContext(ctx)
					})
					if w.Code != c.want && s.runs.Load() == 1 {
						t.Errorf("%d, want %d", w.Code, c.want)
					}
					ctx, cancel = cancellable(t)
				}
				if s.runs.Load() != c.runs {
					t.Errorf("%d runs, want %d", s.runs.Load(), c.runs)
				}
			})
		}
	}
}

// Two requests ran at the same time, because the lock was lost. Both clients get the answer that
// was kept first.
func TestTheFirstKeptAnswerCounts(t *testing.T) {
	s, script := newShop(t)
	s.serve = func(w http.ResponseWriter, r *http.Request) {
		s.serve = nil
		states, _ := s.Locker.List(t.Context(), "")
		script.Lose(states[0].Name)
		if w := s.pay(`"k"`, ""); w.Body.String() != "charge 2: " {
			t.Errorf("the successor got %q", w.Body)
		}
		w.Header().Set("X-Late", "yes")
		io.WriteString(w, "charge 1")
	}
	w := s.pay(`"k"`, "")
	if w.Body.String() != "charge 2: " || w.Header().Get("X-Late") != "" || w.Header().Get("X-Outer") == "" {
		t.Errorf("%q %v", w.Body, w.Header())
	}
}

// broken fails as a server that is away.
type broken struct {
	padlockhttp.Results
	get, swap error
}

func (b *broken) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	if b.get != nil {
		return sessionstore.Blob{}, b.get
	}
	return b.Results.Get(ctx, key)
}

func (b *broken) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	if err := errors.Join(b.swap, ctx.Err()); err != nil {
		return false, nil, err
	}
	return b.Results.Swap(ctx, key, old, data, ttl)
}

// stormy loses the first requests and the first reply.
type stormy struct {
	padlockhttp.Results
	requests, replies int
}

func (s *stormy) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	if s.requests--; s.requests >= 0 {
		return false, nil, io.ErrUnexpectedEOF
	}
	done, present, err := s.Results.Swap(ctx, key, old, data, ttl)
	if s.replies--; s.replies >= 0 {
		return false, nil, io.ErrUnexpectedEOF
	}
	return done, present, err
}

// The store of the answers restarts in the moment in which the work ends. The work is done once,
// and the first client is not told that its answer is a repeat.
func TestAnAnswerIsKeptAcrossARestart(t *testing.T) {
	for _, c := range []stormy{{requests: 40}, {replies: 1}, {requests: 3, replies: 2}} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newShop(t)
			c.Results = s.Results
			s.Results = &c
			first, again := s.pay(`"k"`, ""), s.pay(`"k"`, "")
			for _, w := range []*httptest.ResponseRecorder{first, again} {
				if w.Code != http.StatusCreated || w.Body.String() != "charge 1: " {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			}
			if s.runs.Load() != 1 || len(s.errs) != 0 {
				t.Errorf("%d runs, errors %v", s.runs.Load(), s.errs)
			}
			if first.Header().Get("Idempotent-Replayed") != "" || again.Header().Get("Idempotent-Replayed") != "true" {
				t.Error("the header does not tell the repeat from the first answer")
			}
		})
	}
}

func TestResultsFail(t *testing.T) { synctest.Test(t, resultsFail) }

func resultsFail(t *testing.T) {
	s, _ := newShop(t)
	away := errors.New("away")
	s.Results = &broken{Results: s.Results, get: away}
	wantProblem(t, s.pay(`"k"`, ""), http.StatusServiceUnavailable, "1")
	if s.runs.Load() != 0 || len(s.errs) != 1 || !errors.Is(s.errs[0], away) {
		t.Errorf("%d runs, errors %v", s.runs.Load(), s.errs)
	}
	s.Results = &broken{Results: &padlockhttp.Memory{}, swap: away}
	if w := s.pay(`"k"`, ""); w.Body.String() != "charge 1: " || len(s.errs) != 2 {
		t.Errorf("%q, errors %v", w.Body, s.errs)
	}
	results := &padlockhttp.Memory{}
	s.Results = results
	s.serve = func(http.ResponseWriter, *http.Request) {
		states, _ := s.Locker.List(t.Context(), "")
		results.Swap(t.Context(), strings.Replace(states[0].Name, ":", "-answer:", 1), nil, []byte(`{"v":2}`), time.Hour)
	}
	s.pay(`"k"`, "")
	if wantProblem(t, s.pay(`"k"`, ""), http.StatusServiceUnavailable, "1"); s.runs.Load() != 2 {
		t.Error("the handler ran, although a newer program has kept an answer")
	}
}

func TestNoLimit(t *testing.T) {
	s, _ := newShop(t)
	s.MaxBytes = math.MaxInt
	if w := s.pay(`"k"`, "7 EUR"); w.Body.String() != "charge 1: 7 EUR" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestLongBodies(t *testing.T) {
	s, _ := newShop(t)
	s.MaxBytes = 10
	wantProblem(t, s.pay(`"k"`, "longer than 10"), http.StatusRequestEntityTooLarge, "")
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "12345")
		io.Copy(w, strings.NewReader("6789012345"))
		io.WriteString(w, "end")
	}
	if w := s.pay(`"k"`, ""); w.Body.String() != "123456789012345end" {
		t.Errorf("%q", w.Body)
	}
	if wantProblem(t, s.pay(`"k"`, ""), http.StatusGone, ""); s.runs.Load() != 1 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

// A flushed answer goes to the client at once, and is kept.
func TestAStreamIsKept(t *testing.T) {
	s, _ := newShop(t)
	next := make(chan struct{})
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one\n")
		http.NewResponseController(w).Flush()
		<-next
		io.WriteString(w, "two\n")
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	line := streamOf(t, srv.URL)
	if got := line(); got != "one" {
		t.Errorf("%q", got)
	}
	next <- struct{}{}
	if got := line(); got != "two" {
		t.Errorf("%q", got)
	}
	line = streamOf(t, srv.URL)
	if a, b := line(), line(); a != "one" || b != "two" || s.runs.Load() != 1 {
		t.Errorf("the repeat got %q, %q", a, b)
	}
}

// The handler sees the headers of its own answer only.
func TestHeadersAfterTheAnswerHasBegun(t *testing.T) {
	s, _ := newShop(t)
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "yes")
	}
	for range 2 {
		if w := s.pay(`"k"`, ""); w.Code != http.StatusAccepted || w.Header().Get("X-Late") != "" || len(w.Header()["X-Outer"]) != 1 {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}

func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &padlockhttp.Memory{}
		for n := range 1000 {
			if done, _, err := m.Swap(t.Context(), fmt.Sprint(n), nil, []byte("x"), time.Second); !done || err != nil {
				t.Fatal(done, err)
			}
			<-time.After(time.Second)
		}
		if n := m.Len(); n > 200 {
			t.Errorf("%d answers are in memory, and one is not out of date", n)
		}
	})
}
