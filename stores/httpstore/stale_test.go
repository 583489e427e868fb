package httpstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestDrainedServer: a load balancer sends new connections to another server. The first one is
// closing, and answers 503 on the connections that it has. The next call reaches the other server.
func TestDrainedServer(t *testing.T) {
	t.Parallel()
	memory := memstore.New()
	old, next := serve(t, memory.Open()), serve(t, memory.Open())
	front := server.NewProxy(t, old.addr)
	s, err := httpstore.Open(t.Context(), httpstore.Config{Servers: []string{"http://" + front.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	front.Lead(next.addr)
	old.api.Close()
	if _, err := s.Acquire(context.Background(), request("name", one)); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("the closing server: %v", err)
	}
	if _, err := s.Acquire(t.Context(), request("name", one)); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
