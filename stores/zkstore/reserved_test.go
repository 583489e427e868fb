package zkstore

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// openLong opens a store with a long session.
func openLong(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c, SessionTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// If the session of a reservation ends before the waiter claims it, the claim is a new try.
func TestReservationEndsWithItsSession(t *testing.T) {
	t.Parallel()
	c := Config{Servers: []string{server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr()}}
	s := openLong(t, c)
	r := driver.Request{Name: "job", Token: driver.TokenOf("waiter"), TTL: 10 * time.Second}
	reserved, err := s.Wait(t.Context(), r, true)
	if err != nil || reserved.TTL == 0 {
		t.Fatalf("Wait for a free name: %+v, %v", reserved, err)
	}
	s.mu.Lock()
	ss := s.live
	s.mu.Unlock()
	ss.lose(errors.New("a test ends it"))
	var g driver.Grant
	server.Eventually(t, func() error { // a busy server may be too slow for the new session
		if g, err = s.Acquire(t.Context(), r); errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			return err
		}
		return nil
	})
	if err != nil || !safety.Rises(t, g.Fence, reserved.Fence) {
		t.Errorf("after a reservation with fence %d: %+v, %v", reserved.Fence, g, err)
	}
}
