package server

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// A connection that is made while the proxy closes or cuts connections ends too. Otherwise Close
// would wait for its client, and Point would leave a connection to the old server.
func TestProxyClosesLateConnections(t *testing.T) {
	for _, end := range []func(*Proxy){(*Proxy).Close, (*Proxy).Cut, func(p *Proxy) { p.Point("127.0.0.1:2") }} {
		p := NewProxy(t, "127.0.0.1:1")
		client, srv := net.Pipe()
		end(p)
		p.join(client, srv, 0)
		if n := len(p.links); n > 0 {
			t.Fatalf("the proxy has %d connections", n)
		}
		for _, end := range []net.Conn{client, srv} {
			if _, err := end.Write(nil); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("an end of the connection is open: %v", err)
			}
		}
	}
}

// A second reply can be lost while the first connection still waits for its server.
func TestProxyLosesReplies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := NewProxy(t, l.Addr().String())
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	srv, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for _, request := range []string{"a", "b"} {
		p.LoseReply(func([]byte) bool { return true })
		if _, err := client.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		if _, err := io.ReadFull(srv, got); err != nil || string(got) != request {
			t.Fatalf("the server got %q, %v", got, err)
		}
	}
	if _, err := srv.Write([]byte("reply")); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 9)); n > 0 || err == nil {
		t.Errorf("the client got %d bytes, %v", n, err)
	}
}

// through opens a connection through a proxy, and returns the proxy and both ends.
func through(t *testing.T) (p *Proxy, client, srv net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p = NewProxy(t, l.Addr().String())
	client, err = net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	srv, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return p, client, srv
}

// expect reads exactly the text from one end of a connection.
func expect(t *testing.T, from net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != text {
		t.Fatalf("%q arrived, %v; want %q", got, err, text)
	}
}

func send(t *testing.T, to net.Conn, text string) {
	t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Data that is delayed passes when the delay ends, and the connection goes on. The delay is so long
// that the test would not end with it.
func TestProxyDelays(t *testing.T) {
	p, client, srv := through(t)
	p.Disturb(Trouble{Delay: time.Hour, Jitter: time.Minute}, Trouble{})
	send(t, client, "late")
	send(t, srv, "not late")
	expect(t, client, "not late")
	p.Disturb(Trouble{}, Trouble{})
	expect(t, srv, "late")
	p.Disturb(Trouble{}, Trouble{Delay: time.Nanosecond})
	send(t, srv, "soon")
	expect(t, client, "soon")
}

// Trouble ends at once even if one end of the connection reads nothing and the proxy is stuck in a
// write to it.
func TestProxyEndsTroubleOfAStuckConnection(t *testing.T) {
	p, _, srv := through(t)
	p.Disturb(Trouble{}, Trouble{Delay: time.Nanosecond})
	for b := make([]byte, 1<<16); ; {
		srv.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := srv.Write(b); errors.Is(err, os.ErrDeadlineExceeded) {
			break // all buffers are full
		} else if err != nil {
			t.Fatal(err)
		}
	}
	p.Disturb(Trouble{}, Trouble{}) // would never return if it waited for the connection
}

// A connection that lost data is closed when the trouble ends. A connection that lost none goes on.
func TestProxyLosesData(t *testing.T) {
	for _, dir := range []direction{requests, replies} {
		p, client, srv := through(t)
		trouble, ends := [2]Trouble{}, [2]net.Conn{client, srv}
		trouble[dir].Lose = true
		from, to := ends[dir], ends[1-dir]
		p.Disturb(trouble[0], trouble[1])
		p.Disturb(Trouble{}, Trouble{})
		send(t, from, "before")
		expect(t, to, "before")
		p.Disturb(trouble[0], trouble[1])
		send(t, to, "the other way")
		expect(t, from, "the other way")
		send(t, from, "lost")
		p.awaitLoss()
		p.Disturb(Trouble{}, Trouble{})
		if n, err := to.Read(make([]byte, 9)); n > 0 || err != io.EOF {
			t.Errorf("direction %d: %d bytes arrived, %v", dir, n, err)
		}
	}
}

// awaitLoss waits until a connection has lost data.
func (p *Proxy) awaitLoss() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for lost := false; !lost; <-tick.C {
		p.mu.Lock()
		for l := range p.links {
			lost = lost || l.holed
		}
		p.mu.Unlock()
	}
}

// A reset arrives in place of data, and as a reset.
func TestProxyResets(t *testing.T) {
	p, client, srv := through(t)
	p.Disturb(Trouble{}, Trouble{Reset: true})
	send(t, client, "a")
	expect(t, srv, "a")
	send(t, srv, "b")
	if n, err := client.Read(make([]byte, 9)); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
}

// After Point, clients come to another server.
func TestProxyPoints(t *testing.T) {
	p, client, _ := through(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.Point(l.Addr().String())
	if n, err := client.Read(make([]byte, 9)); n > 0 || err != io.EOF {
		t.Errorf("the old connection goes on: %d bytes, %v", n, err)
	}
	client, err = net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	srv, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	send(t, client, "hello")
	expect(t, srv, "hello")
}

// On a stranded connection nothing passes until one end gives up. The end of all trouble does not
// end it.
func TestProxyStrands(t *testing.T) {
	for dir := range 2 {
		p, client, srv := through(t)
		ends := [2]net.Conn{client, srv}
		from, to := ends[dir], ends[1-dir]
		send(t, from, "before")
		expect(t, to, "before")
		p.Strand()
		p.Disturb(Trouble{}, Trouble{})
		p.mu.Lock()
		open := len(p.links)
		p.mu.Unlock()
		send(t, from, "lost")
		from.Close()
		if n, err := to.Read(make([]byte, 9)); open != 1 || n > 0 || err != io.EOF {
			t.Errorf("direction %d: %d connections; %d bytes arrived, %v", dir, open, n, err)
		}
	}
}
