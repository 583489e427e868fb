package etcdstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// TestSilentServer: calls to a server that does not answer end by themselves, even if another call
// has begun before. The connection would be given up only later.
func TestSilentServer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	p := server.NewProxy(t, srv.Addr())
	s := mustOpen(t, []string{p.Addr()})
	take(t, s, request("job", "one"))
	p.Silence(true)
	defer p.Silence(false)
	errs := make(chan error)
	for range 3 {
		go func() {
			_, err := s.Acquire(t.Context(), request("job", "two"))
			errs <- err
		}()
		<-time.After(500 * time.Millisecond)
	}
	for range 3 {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "does not answer in time") {
			t.Errorf("Acquire: %v; want that the server does not answer in time", err)
		}
	}
}
