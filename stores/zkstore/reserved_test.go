package zkstore

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// If the session of a reservation ends before the waiter claims it, the claim is a new try.
func TestReservationEndsWithItsSession(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Servers: []string{server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := driver.Request{Name: "job", Token: "waiter", TTL: 10 * time.Second}
	reserved, err := s.Wait(t.Context(), r, true)
	if err != nil || reserved.TTL == 0 {
		t.Fatalf("Wait for a free name: %+v, %v", reserved, err)
	}
	s.mu.Lock()
	ss := s.live
	s.mu.Unlock()
	ss.lose(errors.New("a test ends it"))
	g, err := s.Acquire(t.Context(), r)
	if err != nil || g.Fence <= reserved.Fence {
		t.Errorf("after a reservation with fence %d: %+v, %v", reserved.Fence, g, err)
	}
}
