package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// TestTriesShareARefusal: of the tries of a process for one name, one asks the servers at a time. A
// refusal counts for every try that had begun before the one that was refused.
func TestTriesShareARefusal(t *testing.T) {
	t.Parallel()
	refusal := &driver.HeldError{Waiters: 3}
	for what, first := range map[string]error{"refused": refusal, "granted": nil, "uncertain": driver.ErrUncertain} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := tries{running: map[string]*try{}}
				replies, asked := make(chan error), 0
				results := make(chan error, 11)
				ask := func() error { asked++; return <-replies }
				for range 11 {
					go func() { results <- all.run(t.Context(), "job", ask) }()
				}
				synctest.Wait()
				replies <- first
				synctest.Wait()
				if err := <-results; err != first || asked != 2 {
					t.Fatalf("%v; after one reply, %d have asked", err, asked)
				}
				replies <- refusal
				for range 10 {
					var held *driver.HeldError
					if err := <-results; !errors.As(err, &held) || held.Waiters != 3 {
						t.Errorf("the refusal of another try: %v", err)
					}
				}
				if asked != 2 || len(all.running) != 0 {
					t.Errorf("%d have asked, %d still run", asked, len(all.running))
				}
			})
		})
	}
}

// TestTryWhoseReplyIsLate: a try whose reply is late delays the others for a moment only.
func TestTryWhoseReplyIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := tries{running: map[string]*try{}}
		reply, done := make(chan error), make(chan error, 1)
		go func() { done <- all.run(t.Context(), "job", func() error { return <-reply }) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), maxTurnWait/2)
		defer cancel()
		if err := all.run(ctx, "job", func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ends: %v", err)
		}
		if err := all.run(t.Context(), "other", func() error { return driver.ErrLost }); err != driver.ErrLost {
			t.Errorf("a try for another name: %v", err)
		}
		if err := all.run(t.Context(), "job", func() error { return driver.ErrExpired }); err != driver.ErrExpired {
			t.Errorf("a try that does not wait any more: %v", err)
		}
		reply <- nil
		if err := <-done; err != nil || len(all.running) != 0 {
			t.Errorf("%v, %d still run", err, len(all.running))
		}
	})
}

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

const (
	createCode  = 1
	getDataCode = 4
)

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
		return driver.Request{Name: name, Token: token, TTL: time.Minute, Holder: driver.Holder{Host: "host.example"}}
	}
	t.Run("a refused try makes no node", func(t *testing.T) {
		if _, err := s.Acquire(t.Context(), request("refused", "holder")); err != nil {
			t.Fatal(err)
		}
		before := sent.sent(createCode)
		_, err := s.Acquire(t.Context(), request("refused", "other"))
		var held *driver.HeldError
		if !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Host != "host.example" || held.Waiters != 0 {
			t.Errorf("Acquire of a name that this process holds: %v", err)
		}
		if n := sent.sent(createCode) - before; n != 0 {
			t.Errorf("a refused try has made %d nodes", n)
		}
	})
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
		<-time.After(20 * time.Millisecond) // so that the waiter comes before the release
		if out, err := s.Release(t.Context(), "job", fmt.Sprint(i), 0); out != driver.OutcomeReleased || err != nil {
			t.Fatalf("Release: %v, %v", out, err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if g, err = s.Acquire(t.Context(), next); err != nil || g.Fence <= fence {
			t.Fatalf("after fence %d, the waiter has %+v, %v", fence, g, err)
		}
		if fewest = min(fewest, sent.sent(getDataCode)-before); fewest == 0 {
			return
		}
	}
	t.Errorf("each waiter has read %d nodes or more", fewest)
}
