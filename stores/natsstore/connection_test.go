package natsstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
)

// newBucket makes the bucket on a server.
func newBucket(t *testing.T, login string) {
	t.Helper()
	u, err := url.Parse("nats://" + login + "/locks")
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, func() error { _, _, err := upgrade(t.Context(), u); return err }) // a server may be slow
}

// openBucket opens the bucket at an address.
func openBucket(t *testing.T, addr string, o ...nats.Option) *bucket {
	t.Helper()
	_, b, err := connect(Config{Servers: []string{addr}, Bucket: "locks", Options: o}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// soon fails the test if f does not end within half a minute.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: it does not end", what)
	}
}

// A message that a Put could not send is not sent later, when the connection is back and the caller
// has given up. The Put says that nothing was written.
func TestNothingIsSentLater(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	p := server.NewProxy(t, srv.Addr())
	newBucket(t, srv.Addr())
	b := openBucket(t, p.Addr())
	if v := getSoon(t, b); v.Version != "" {
		t.Fatalf("a new bucket: %+v", v)
	}
	now := clientSoon(t, b)
	p.Point("127.0.0.1:1") // nothing listens there
	<-now.up.Done()
	server.Eventually(t, func() error {
		if !now.IsReconnecting() {
			return errors.New("the client of NATS has not noticed the loss")
		}
		return nil
	})
	// A call that got its client before the loss asks the client of NATS.
	if _, err := now.js.Publish(t.Context(), b.subject("job"), []byte("late")); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("the client of NATS keeps what it cannot send: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.Put(ctx, "job", []byte("late"), ""); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("a Put without a connection: %v", err)
	}
	p.Point(srv.Addr())
	server.Eventually(t, func() error { // the connection is back when the server is ready for it
		if err := b.Put(t.Context(), "other", []byte("value"), ""); !errors.Is(err, register.ErrChanged) {
			return err
		}
		return nil // an earlier try has written it
	})
	if v := getSoon(t, b); v.Version != "" {
		t.Errorf("a Put that had failed was sent later: %+v", v)
	}
}

// getSoon reads the key "job". It tries again, because a busy server may be silent for longer than
// the bucket waits.
func getSoon(t *testing.T, b *bucket) (v register.Value) {
	t.Helper()
	server.Eventually(t, func() (err error) { v, err = b.Get(t.Context(), "job"); return err })
	return v
}

func clientSoon(t *testing.T, b *bucket) (c *client) {
	t.Helper()
	server.Eventually(t, func() (err error) { c, err = b.client(t.Context()); return err })
	return c
}

// A hanging dialer connects until now is set. Then it hangs until the test ends.
type hanging struct {
	t   *testing.T
	now atomic.Bool
}

func (h *hanging) Dial(network, address string) (net.Conn, error) {
	if h.now.Load() {
		<-h.t.Context().Done()
		return nil, h.t.Context().Err()
	}
	return new(net.Dialer).DialContext(h.t.Context(), network, address)
}

// While the client hangs in a new connection, calls end with their context, a Put is known to have
// written nothing, and Close ends.
func TestConnectionThatHangs(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	p := server.NewProxy(t, srv.Addr())
	newBucket(t, srv.Addr())
	h := &hanging{t: t}
	b := openBucket(t, p.Addr(), nats.SetCustomDialer(h))
	getSoon(t, b)
	now := clientSoon(t, b)
	h.now.Store(true)
	p.Silence(true)
	for _, call := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"a Get whose connection is lost", func(ctx context.Context) error {
			time.AfterFunc(100*time.Millisecond, p.Cut)
			_, err := b.Get(ctx, "job")
			<-now.up.Done()
			return err
		}},
		{"Get", func(ctx context.Context) error { _, err := b.Get(ctx, "job"); return err }},
		{"Put", func(ctx context.Context) error { return b.Put(ctx, "job", []byte("value"), "") }},
		{"Names", func(ctx context.Context) error { _, err := b.Names(ctx, ""); return err }},
		{"Watch", func(ctx context.Context) error { return b.Watch(ctx, "job", "") }},
	} {
		soon(t, call.name, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call.do(ctx); err == nil || errors.Is(err, driver.ErrUncertain) {
				t.Errorf("%s: %v", call.name, err)
			}
		})
	}
	soon(t, "Close", func() { b.Close() })
}

// An Open that fails does not wait for a connection that hangs.
func TestOpenThatHangs(t *testing.T) {
	t.Parallel()
	soon(t, "Open", func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h := &hanging{t: t}
		h.now.Store(true)
		s, err := Open(ctx, Config{Servers: []string{"127.0.0.1:1"}, Bucket: "locks", Options: []nats.Option{nats.SetCustomDialer(h)}})
		if err == nil {
			s.Close()
			t.Error("Open has no error")
		}
	})
}

// An insulting connection replaces what the server says by an error that nobody knows.
type insulting struct {
	net.Conn
	now *atomic.Bool
}

func (c insulting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.now.Swap(false) {
		return copy(p, "-ERR 'Out Of Tune'\r\n"), nil
	}
	return n, err
}

type insultingDialer struct{ now atomic.Bool }

func (d *insultingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return insulting{c, &d.now}, err
}

// A client that gives up is replaced, and no option makes it give up when the connection is lost.
func TestClientThatGivesUp(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	p := server.NewProxy(t, srv.Addr())
	newBucket(t, srv.Addr())
	d := &insultingDialer{}
	b := openBucket(t, p.Addr(), nats.SetCustomDialer(d), nats.NoReconnect(), nats.RetryOnFailedConnect(true))
	for _, harm := range []func(){func() {}, p.Cut, func() { d.now.Store(true) }, p.Cut} {
		harm()
		soon(t, "Get", func() {
			for _, err := b.Get(t.Context(), "job"); err != nil && t.Context().Err() == nil; {
				_, err = b.Get(t.Context(), "job")
			}
		})
	}
	now := clientSoon(t, b)
	d.now.Store(true)
	<-now.up.Done() // the client asks every second whether the server is there
	getSoon(t, b)
}

// A waiter that gets no reply to its watch says so, long before the lease ends that it waits for.
func TestWatchWithoutReply(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{Config: `authorization { users: [
		{ user: root, password: root }
		{ user: deaf, password: deaf, permissions: { publish: { deny: "$JS.API.CONSUMER.CREATE.>" } } }
	] }
`})
	newBucket(t, "root:root@"+srv.Addr())
	b := openBucket(t, srv.Addr(), nats.UserInfo("deaf", "deaf"))
	server.Eventually(t, func() error { // if the server is slow, the error may be another one
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := b.Watch(ctx, "job", "")
		if ctx.Err() != nil || err != nil && !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("Watch: %v", err)
		}
		if err == nil || !strings.Contains(err.Error(), "Permissions Violation for Publish to \"$JS.API.CONSUMER.CREATE") {
			return fmt.Errorf("Watch: %v", err)
		}
		return nil
	})
}

// A waiter that was woken does not wait until its consumer is deleted.
func TestWatchEndsAtOnce(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{Config: `authorization { users: [
		{ user: root, password: root }
		{ user: app, password: app, permissions: { publish: { deny: "$JS.API.CONSUMER.DELETE.>" } } }
	] }
`})
	newBucket(t, "root:root@"+srv.Addr())
	b := openBucket(t, srv.Addr(), nats.UserInfo("app", "app"))
	soon(t, "ten watches", func() {
		for n := range 10 {
			v, err := b.Get(t.Context(), "job")
			if err == nil {
				err = b.Put(t.Context(), "job", []byte(strconv.Itoa(n)), v.Version)
			}
			if err == nil {
				err = b.Watch(t.Context(), "job", v.Version)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}
