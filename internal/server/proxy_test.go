package server

import (
	"errors"
	"io"
	"net"
	"testing"
)

// A connection that is made while the proxy closes ends too. Otherwise Close would wait for its
// client.
func TestProxyClosesLateConnections(t *testing.T) {
	p := NewProxy(t, "127.0.0.1:1")
	p.Close()
	client, srv := net.Pipe()
	p.join(client, srv)
	if n := len(p.conns); n > 0 {
		t.Fatalf("a closed proxy has %d connections", n)
	}
	for _, end := range []net.Conn{client, srv} {
		if _, err := end.Write(nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("an end of the connection is open: %v", err)
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
