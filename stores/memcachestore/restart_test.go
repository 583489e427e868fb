package memcachestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

// A slowConn delivers the reply to the first mg when the second mg is being written, and fails that
// write when fail is closed. So the request that follows the first mg waits meanwhile.
type slowConn struct {
	net.Conn
	reads         *atomic.Int32 // how many mg were written
	first         chan struct{} // closed when the first mg was written
	writing, fail chan struct{}
}

func (c *slowConn) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(b, []byte("mg ")) {
		return c.Conn.Write(b)
	}
	switch c.reads.Add(1) {
	case 1:
		defer close(c.first)
	case 2:
		close(c.writing)
		<-c.fail
		return 0, errors.New("the connection is broken")
	}
	return c.Conn.Write(b)
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.HasPrefix(b[:n], []byte("VA ")) {
		<-c.writing
	}
	return n, err
}

// A restarted server counts its ids from the beginning. Here the server restarts while a holder's
// release or extension is under way, and another process takes the lock. The new value has the same
// id as the old one, but the request of the old holder does not change it.
func TestSameIDAfterARestart(t *testing.T) {
	t.Parallel()
	for command, call := range map[string]func(*memcachestore.Store) error{
		"Release": func(s *memcachestore.Store) error {
			outcome, err := s.Release(context.Background(), "job", "first", 0)
			if outcome != driver.OutcomeGone {
				return fmt.Errorf("Release returns %v", outcome)
			}
			return err
		},
		"Extend": func(s *memcachestore.Store) error {
			if _, err := s.Extend(context.Background(), "job", "first", time.Hour); !errors.Is(err, driver.ErrLost) {
				return fmt.Errorf("Extend returns %w", err)
			}
			return nil
		},
		"Replaces": func(s *memcachestore.Store) error {
			r := request("job", "third")
			r.Replaces = driver.TokenOf("first")
			if _, err := s.Acquire(context.Background(), r); !errors.Is(err, driver.ErrLost) {
				return fmt.Errorf("Acquire returns %w", err)
			}
			return nil
		},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				if restartDuring(t, call) {
					return
				}
			}
			t.Error("the server is never back before the call has reached its time limit")
		})
	}
}

// restartDuring restarts the server while call is under way, after its mg and before its next
// request. Another process then takes the lock, and must keep it. restartDuring returns false if
// the machine was so busy that the call reached its own time limit meanwhile.
func restartDuring(t *testing.T, call func(*memcachestore.Store) error) (inTime bool) {
	srv := server.Memcached(t)
	var reads atomic.Int32
	first, writing, fail := make(chan struct{}), make(chan struct{}), make(chan struct{})
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &slowConn{conn, &reads, first, writing, fail}, nil
	}
	slow, err := memcachestore.Open(t.Context(), memcachestore.Config{Addr: srv.Addr(), Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	take(t, slow, request("job", "first"))
	result, began := make(chan error, 1), time.Now()
	go func() { result <- call(slow) }()
	<-first
	go slow.Inspect(t.Context(), "another")
	<-writing
	srv.Kill()
	srv.Restart(true)
	other := mustOpen(t, srv.Addr())
	take(t, other, request("job", "second"))
	close(fail)
	err = <-result
	if errors.Is(err, driver.ErrUnavailable) { // the store read the end of the connection first, and sent nothing
		err = call(slow)
	}
	if err != nil {
		if time.Since(began) > driver.MaxSilence/2 {
			return false
		}
		t.Error(err)
	}
	if g, err := other.Extend(t.Context(), "job", "second", 0); err != nil || g.TTL > 2*time.Minute {
		t.Errorf("the second holder's lease: %v, %v", g.TTL, err)
	}
	return true
}
