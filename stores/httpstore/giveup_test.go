package httpstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// at starts a server that answers with f, and returns its address.
func at(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

// isFor reports whether the request is for the path of the API.
func isFor(r *http.Request, path string) bool { return strings.HasSuffix(r.URL.Path, "/v1/"+path) }

// lazily opens a store without asking the servers.
func lazily(t *testing.T, servers ...string) *httpstore.Store {
	t.Helper()
	s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: servers}, httpstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// elsewhere is what a server answers that has no place for the token: acquire goes to the next
// server, and a release finds nothing.
func elsewhere(w http.ResponseWriter, r *http.Request) {
	if isFor(r, "release") {
		io.WriteString(w, `{"outcome":"gone"}`)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"error":"closing"}`)
}

// A place at one server is given up while the other server is silent, even if the store closes.
func TestGiveUpWithSilentServer(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	b := serve(t, memory.Open())
	silent := at(t, func(w http.ResponseWriter, r *http.Request) {
		if isFor(r, "release") {
			io.Copy(io.Discard, r.Body) // without it, the end of the connection is not seen
			<-r.Context().Done()
			return
		}
		elsewhere(w, r)
	})
	store := lazily(t, silent, b.url())
	holdAndGiveUp(t, memory, store)
	closed := make(chan struct{})
	go func() { store.Close(); close(closed) }()
	free(t, memory)
	<-closed
}

// holdAndGiveUp takes the name, waits for it with another token, ends that wait, and releases the
// name.
func holdAndGiveUp(t *testing.T, memory *memstore.Store, store *httpstore.Store) {
	t.Helper()
	if _, err := memory.Acquire(t.Context(), request("name", one)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := store.Wait(ctx, request("name", two), true); ended <- err }()
	waiting(t, memory)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := memory.Release(t.Context(), "name", one, 0); err != nil {
		t.Fatal(err)
	}
}

// The server that has the place does not answer the first releases. The answer of the other one
// does not end the attempts.
func TestGiveUpAtEveryServer(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	api := padlockapi.Handler(memory.Open(), padlockapi.Authorize(all))
	t.Cleanup(func() { api.Close() })
	endPoll := make(chan struct{})
	var releases atomic.Int32
	b := at(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isFor(r, "acquire"):
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() { <-endPoll; cancel() }()
			r = r.WithContext(ctx) // the poll is answered, and the place stays
		case releases.Add(1) == 1:
			close(endPoll)
			fallthrough
		case releases.Load() <= 4:
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		api.ServeHTTP(w, r)
	})
	store := lazily(t, at(t, elsewhere), b)
	holdAndGiveUp(t, memory, store)
	free(t, memory)
}

// A process that gives up many waits at once does not send as many releases at once. Each gets its
// turn at a server that is slow, and one release is enough for each.
func TestManyGiveUp(t *testing.T) {
	const waits = 320
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		api := padlockapi.Handler(memory.Open(), padlockapi.Authorize(all))
		defer api.Close()
		var releases, now, most atomic.Int32
		s := overhttptest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isFor(r, "release") {
				releases.Add(1)
				defer now.Add(-1)
				for n := now.Add(1); n > most.Load(); {
					most.Store(n)
				}
				<-time.After(time.Second)
			}
			api.ServeHTTP(w, r)
		}))
		defer func() {
			s.Stop()
			<-time.After(time.Minute) // requests that are still in the handler end
		}()
		s.Notices = true
		store, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{"http://127.0.0.1"}, Transport: s.Front().Transport()}, httpstore.Lazy())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := memory.Acquire(t.Context(), request("name", one)); err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range waits {
			all.Go(func() {
				if g, err := store.Wait(ctx, request("name", fmt.Sprintf("%032x", 1000+i)), true); !errors.Is(err, context.Canceled) {
					t.Errorf("Wait: %+v, %v", g, err)
				}
			})
		}
		synctest.Wait()
		giveUp()
		all.Wait()
		<-time.After(waits / 32 * time.Second)
		synctest.Wait()
		if _, err := memory.Release(t.Context(), "name", one, 0); err != nil {
			t.Fatal(err)
		}
		free(t, memory)
		if releases.Load() != waits || most.Load() > 32 {
			t.Errorf("%d releases of %d waits, %d at once, want at most 32", releases.Load(), waits, most.Load())
		}
	})
}
