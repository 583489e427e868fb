package httpstore_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A request to wait is lost on the way to a server, the other server grants the lock, and then the
// lost request arrives. When the lock is released, the first server does not get it.
func TestLostPollLeavesNoPlace(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	api := padlockapi.Handler(memory.Open(), padlockapi.Authorize(all))
	t.Cleanup(func() { api.Close() })
	late := make(chan *http.Request, 1) // the first request
	var once sync.Once
	a := at(t, func(w http.ResponseWriter, r *http.Request) {
		if isFor(r, "acquire") {
			once.Do(func() {
				body, _ := io.ReadAll(r.Body)
				again := httptest.NewRequest(http.MethodPost, "/v1/acquire", bytes.NewReader(body))
				again.Header = r.Header.Clone()
				late <- again
			})
			panic(http.ErrAbortHandler)
		}
		api.ServeHTTP(w, r)
	})
	store := lazily(t, a, serve(t, memory.Open()).url())
	if _, err := memory.Acquire(t.Context(), request("name", one)); err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() { _, err := store.Wait(t.Context(), request("name", two), true); granted <- err }()
	waiting(t, memory)
	arrived := make(chan struct{})
	go func() { defer close(arrived); api.ServeHTTP(httptest.NewRecorder(), <-late) }()
	waiters(t, memory, 2)
	if _, err := memory.Release(t.Context(), "name", one, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	if out, err := store.Release(t.Context(), "name", two, 0); err != nil || out != driver.OutcomeReleased {
		t.Errorf("Release: %v, %v", out, err)
	}
	free(t, memory)
	<-arrived
	if s, err := memory.Inspect(t.Context(), "name"); err != nil || len(s.Holds) != 0 {
		t.Errorf("at the end: %+v, %v", s, err)
	}
}

// waiters returns when so many wait for the name.
func waiters(t *testing.T, memory *memstore.Store, n int) {
	t.Helper()
	var s driver.State
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		if s, _ = memory.Inspect(t.Context(), "name"); s.Waiters >= n {
			return
		}
	}
	t.Fatalf("%d wait, want %d", s.Waiters, n)
}

// A place that a lost request may have left is given up when the token is spent, and when another
// token takes the lock over.
func TestLostPollOfSpentToken(t *testing.T) {
	t.Parallel()
	for name, spent := range map[string]bool{"spent": true, "taken over": false} {
		released := make(chan string, 10)
		a := at(t, func(w http.ResponseWriter, r *http.Request) {
			if isFor(r, "acquire") {
				panic(http.ErrAbortHandler)
			}
			body, _ := io.ReadAll(r.Body)
			released <- string(body)
			elsewhere(w, r)
		})
		b := at(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !isFor(r, "acquire"):
				elsewhere(w, r)
			case spent:
				w.WriteHeader(http.StatusGone)
				io.WriteString(w, `{"error":"lost"}`)
			default:
				grants(w, r)
			}
		})
		store := lazily(t, a, b)
		if g, err := store.Wait(t.Context(), request("name", two), true); err != nil || (g.TTL == 0) != spent {
			t.Errorf("%s: Wait: %+v, %v", name, g, err)
		}
		if !spent {
			r := request("name", one)
			r.Replaces = driver.TokenOf(two)
			if _, err := store.Acquire(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
		select {
		case body := <-released:
			if !strings.Contains(body, two) {
				t.Errorf("%s: released %s", name, body)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing was released", name)
		}
	}
}
