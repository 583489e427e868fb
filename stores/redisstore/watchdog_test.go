package redisstore_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestHalfReply breaks the network in the middle of a reply, when no other reply is outstanding.
// The call ends although its context never does.
func TestHalfReply(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	var half atomic.Bool
	c := at(srv.Addr())
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &halfConn{Conn: conn, half: &half}, nil
	}
	s, err := redisstore.Open(t.Context(), c, fresh(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other := opened(t, srv.Addr())
	for range 30 { // so that the reply needs more than one packet
		take(t, other, reading(request("job")))
	}
	if _, err := s.Inspect(t.Context(), "job"); err != nil { // the server now knows the script
		t.Fatal(err)
	}
	<-time.After(3 * time.Second) // until the connection is idle, with no probe under way
	half.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Inspect(context.Background(), "job")
		ended <- err
	}()
	select {
	case err := <-ended:
		wantIs(t, err, driver.ErrUncertain, "a call whose reply broke off")
	case <-time.After(3 * driver.MaxSilence):
		t.Error("a call whose reply broke off does not end")
	}
}

// TestNoNeedlessPing sends requests one at a time. Their replies show that the server is alive, so
// the store sends no PING after them.
func TestNoNeedlessPing(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	var pings atomic.Int64
	c := at(srv.Addr())
	c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &pingCounter{conn, &pings}, nil
	}
	s, err := redisstore.Open(t.Context(), c, fresh(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := request("job")
	take(t, s, r)
	extend := func() {
		if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second) // until the connection is idle
	}
	extend() // so that the server knows the script
	const rounds = 4
	before := pings.Load()
	for range rounds {
		extend()
	}
	if n := pings.Load() - before; n >= rounds { // on a busy machine, a reply may come late
		t.Errorf("%d requests cost %d PINGs", rounds, n)
	}
}

type pingCounter struct {
	net.Conn
	n *atomic.Int64
}

func (c *pingCounter) Write(b []byte) (int, error) {
	c.n.Add(int64(bytes.Count(b, []byte("PING"))))
	return c.Conn.Write(b)
}

// halfConn loses the network in the middle of a reply: after half is set, only the first packet of
// the next long reply arrives, and nothing after that.
type halfConn struct {
	net.Conn
	half *atomic.Bool
	lost bool
}

const packet = 1400

func (c *halfConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		switch {
		case c.lost && err != nil:
			return 0, err
		case c.lost:
			continue
		case n > packet && c.half.CompareAndSwap(true, false):
			c.lost = true
			return packet, nil
		}
		return n, err
	}
}
