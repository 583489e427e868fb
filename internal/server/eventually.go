package server

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// Eventually repeats f until it returns nil, for a minute at most.
func Eventually(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// allReady waits until all of the servers are ready, which begin when they have found each other.
func allReady(t testing.TB, servers []*Server, ready func(context.Context, Place) error) {
	t.Helper()
	Eventually(t, func() error {
		for _, s := range servers {
			if err := ready(context.Background(), s.place); err != nil {
				return fmt.Errorf("%s does not find the others: %w", s.spec.Name, err)
			}
		}
		return nil
	})
}

// dial connects to a server for less than limit.
func dial(ctx context.Context, addr string, limit time.Duration) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(limit))
}
