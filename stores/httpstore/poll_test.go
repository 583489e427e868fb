package httpstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/httpstore"
)

// polls answers each acquire with the next of the functions, and returns how long the requests
// would have waited.
func polls(t *testing.T, each ...http.HandlerFunc) (store *httpstore.Store, waits func() []int64) {
	t.Helper()
	var mu sync.Mutex
	var all []int64
	url := at(t, func(w http.ResponseWriter, r *http.Request) {
		if !isFor(r, "acquire") {
			elsewhere(w, r)
			return
		}
		var body struct {
			Wait int64 `json:"wait_ms"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, body.Wait)
		next := each[min(len(all), len(each))-1]
		mu.Unlock()
		next(w, r)
	})
	return lazily(t, url), func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func breaks(http.ResponseWriter, *http.Request)     { panic(http.ErrAbortHandler) }
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
func grants(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"fence":7,"valid_ms":9000}`) }
func goesOn(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"retry_ms":1}`)
}

// after returns f after a pause.
func after(d time.Duration, f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-time.After(d)
		f(w, r)
	}
}

// A connection that breaks does not end a wait, however long the request has waited already. A
// server that is silent from then on ends the wait soon.
func TestConnectionBreaksInAPoll(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	store, _ := polls(t, after(6*time.Second, breaks), grants)
	mute, waits := polls(t, breaks, silent)
	mutely := make(chan error, 1)
	began := time.Now()
	go func() { _, err := mute.Wait(t.Context(), request("name", one), true); mutely <- err }()
	if g, err := store.Wait(t.Context(), request("name", one), true); err != nil || g.TTL == 0 {
		t.Errorf("after a short loss: %+v, %v", g, err)
	}
	if err := <-mutely; !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("a silent server: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a silent server ends the wait after %v, requests %v", took, waits())
	}
}

// An answer of something on the way does not keep a place, even if its status is that of a wait
// that goes on: the wait ends soon, and its error says that nothing is known.
func TestForeignAnswerToAPoll(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "<html>please wait</html>", "{}", `{"retry_ms":null}`} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			store, waits := polls(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				io.WriteString(w, text)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := store.Wait(ctx, request("name", one), true); !errors.Is(err, driver.ErrUncertain) || len(waits()) < 2 {
				t.Errorf("%v after %d requests", err, len(waits()))
			}
		})
	}
}

// If the lease is short, each request waits for a short time: a lease counts from its request.
func TestPollsOfShortLeases(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration][]int64{
		100 * time.Millisecond: {1000, 1000, 1000},
		time.Second:            {10_000, 10_000, 1000},
		50 * time.Second:       {20_000, 20_000, 1000},
	} {
		store, waits := polls(t, goesOn, breaks, grants)
		r := request("name", one)
		r.TTL = ttl
		if _, err := store.Wait(t.Context(), r, true); err != nil {
			t.Error(err)
		}
		if got := waits(); !slices.Equal(got, want) {
			t.Errorf("with a lease of %v the requests wait %v ms, want %v", ttl, got, want)
		}
	}
}
