package httpstore_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/observe/padlockapi"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// service is a server of the API. A test can kill it, and start it again at the same address.
type service struct {
	t    testing.TB
	addr string
	opts []padlockapi.Option

	mu      sync.Mutex
	server  *http.Server
	api     *padlockapi.API
	closing sync.WaitGroup
}

// all lets everybody do everything.
func all(*http.Request) padlockapi.Visitor {
	return padlockapi.Visitor{Name: "ann", Read: true, Acquire: true, Break: true}
}

// serve starts a server for the store.
func serve(t testing.TB, store driver.Store, opts ...padlockapi.Option) *service {
	t.Helper()
	if opts == nil {
		opts = []padlockapi.Option{padlockapi.Authorize(all), padlockapi.AllowBreak()}
	}
	s := &service{t: t, addr: "127.0.0.1:0", opts: opts}
	s.start(store)
	t.Cleanup(s.stop)
	return s
}

func (s *service) url() string { return "http://" + s.addr }

func (s *service) start(store driver.Store) {
	s.t.Helper()
	var l net.Listener
	server.Eventually(s.t, func() (err error) { // another program may have the port for a moment
		l, err = net.Listen("tcp", s.addr)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = l.Addr().String()
	s.api = padlockapi.Handler(store, s.opts...)
	s.server = &http.Server{Handler: s.api}
	server := s.server
	s.closing.Go(func() { server.Serve(l) })
}

// kill breaks all connections. The waits of the old server end in the background, as if its process
// had died: whatever they still get is not known to any client.
func (s *service) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Close()
	api := s.api
	s.closing.Go(func() { api.Close() })
}

func (s *service) stop() {
	s.kill()
	s.closing.Wait()
}

// open opens a store at the servers.
func open(t testing.TB, services ...*service) *httpstore.Store {
	t.Helper()
	var c httpstore.Config
	for _, s := range services {
		c.Servers = append(c.Servers, s.url())
	}
	s, err := httpstore.Open(t.Context(), c)
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

// The store passes the suite over a server with locks in memory, under faults of the connection and
// of the server. A server that starts again without data has lost these locks. Requests and replies
// are on their way for a moment, so that they overtake each other.
func TestContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var api *padlockapi.API
		var closing sync.WaitGroup
		s := overhttptest.Start(nil)
		s.Notices = true
		s.Kind = func(r *http.Request) string {
			if isFor(r, "acquire") || isFor(r, "extend") || isFor(r, "release") || isFor(r, "break") {
				return "change"
			}
			return "read"
		}
		start := func() {
			api = padlockapi.Handler(memstore.New(), padlockapi.Authorize(all), padlockapi.AllowBreak())
			s.SetHandler(slow(api))
		}
		start()
		h := s.Harness("change", func(ctx context.Context, f *overhttptest.Front) (driver.Store, error) {
			return httpstore.Open(ctx, httpstore.Config{Servers: []string{"http://127.0.0.1"}, Transport: f.Transport()})
		}, func() {
			old := api
			closing.Go(func() { old.Close() })
			start()
		})
		h.Anonymous = true // the holder is the server; the label has the rest
		h.SkewClock = nil  // the server has no clock of its own
		h.Logf = t.Logf
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
		s.Stop()
		api.Close()
		closing.Wait()
	})
}

// slow returns a handler whose requests and replies take up to a millisecond each.
func slow(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-time.After(rand.N(time.Millisecond))
		h.ServeHTTP(w, r)
		<-time.After(rand.N(time.Millisecond))
	}
}
