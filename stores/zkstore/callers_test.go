package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// A requestCounter counts the requests of its connections by their codes.
type requestCounter struct {
	mu    sync.Mutex
	codes map[uint32]int
}

type countedConn struct {
	net.Conn
	c *requestCounter
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.c.mu.Lock()
	if len(b) >= 12 {
		c.c.codes[binary.BigEndian.Uint32(b[8:])]++
	}
	c.c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *requestCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &countedConn{conn, c}, err
}

const getDataCode = 4

func (c *requestCounter) sent(code uint32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.codes[code]
}

// TestCallersOfOneProcess: many callers of one process share a store, and their requests are few.
func TestCallersOfOneProcess(t *testing.T) {
	t.Parallel()
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{})
	sent := &requestCounter{codes: map[uint32]int{}}
	s := openLong(t, Config{Servers: []string{srv.Addr()}, Dial: sent.dial})
	s.cfg.ownFor, s.cfg.reserveFor = time.Minute, time.Minute // so that a slow machine does not matter
	request := func(name, token string) driver.Request {
		return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "host.example"}}
	}
	t.Run("a hand-over", func(t *testing.T) { handOversInside(t, s, sent, request) })
	t.Run("a queue that was read too early", func(t *testing.T) {
		ss, err := s.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		early := func(string) (*queue, error) { return &queue{nodes: []node{{guid: "other"}}}, nil }
		n, q, err := ss.joinAndLook(s.cfg.dir("early"), waitExclusive, data{}, early)
		if err != nil || q != nil || n.kind != waitExclusive {
			t.Errorf("a new node %v that is not in the queue: %+v, %v", n, q, err)
		}
	})
}

// handOversInside: a waiter of the process that releases the lock watches no node, at least if the
// requests of the two are sent in the usual order.
func handOversInside(t *testing.T, s *Store, sent *requestCounter, request func(name, token string) driver.Request) {
	g, err := s.Acquire(t.Context(), request("job", "0"))
	if err != nil {
		t.Fatal(err)
	}
	fewest := 100
	for i := range 100 { // usually once is enough
		before, fence := sent.sent(getDataCode), g.Fence
		next := request("job", fmt.Sprint(i+1))
		got := make(chan error, 1)
		go func() {
			g, err := s.Wait(t.Context(), next, true)
			if err == nil && g.TTL == 0 {
				err = errors.New("the waiter did not get the lock")
			}
			got <- err
		}()
		server.Eventually(t, func() error { // the waiter comes before the release
			stacks := make([]byte, 1<<20)
			if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("awaitOwn")) {
				return errors.New("no waiter waits for its own process")
			}
			return nil
		})
		if out, err := s.Release(t.Context(), "job", fmt.Sprint(i), 0); out != driver.OutcomeReleased || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if g, err = s.Acquire(t.Context(), next); err != nil || !safety.Rises(t, g.Fence, fence) {
			t.Fatalf("after fence %d, the waiter has %+v, %v", fence, g, err)
		}
		if fewest = min(fewest, sent.sent(getDataCode)-before); fewest == 0 {
			return
		}
	}
	t.Errorf("each waiter has read %d nodes or more", fewest)
}
