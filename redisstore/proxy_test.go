package redisstore_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is between a store and its server, and can cut connections and lose replies.
type proxy struct {
	to string
	l  net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]bool // both ends of all connections
	lose   bool              // the reply to the next request of a store
	silent bool              // nothing passes, and nothing is closed
	wake   *sync.Cond
	wg     sync.WaitGroup
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, l: l, conns: map[net.Conn]bool{}}
	p.wake = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) close() {
	p.l.Close()
	p.silence(false)
	p.cut()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		srv, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[srv] = true, true
		p.mu.Unlock()
		lost := make(chan struct{})
		p.wg.Go(func() { p.requests(client, srv, lost) })
		p.wg.Go(func() { p.replies(client, srv, lost) })
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
	p.wake.Broadcast()
}

// loseReply swallows the reply to the next request, and then closes its
// connection.
func (p *proxy) loseReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = true
}

// pass waits while the proxy is silent, and reports whether to lose the reply to this request.
func (p *proxy) pass(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silent {
		p.wake.Wait()
	}
	lose := p.lose && (bytes.Contains(request, []byte("EVAL")) || bytes.Contains(request, []byte("\nSET\r")))
	p.lose = p.lose && !lose
	return lose
}

func (p *proxy) requests(client, srv net.Conn, lost chan struct{}) {
	defer client.Close()
	defer srv.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if p.pass(buf[:n]) {
			close(lost)
		}
		if _, err := srv.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) replies(client, srv net.Conn, lost chan struct{}) {
	defer client.Close()
	defer srv.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := srv.Read(buf)
		if err != nil {
			return
		}
		p.pass(nil)
		select {
		case <-lost:
			return
		default:
		}
		if _, err := client.Write(buf[:n]); err != nil && err != io.ErrShortWrite {
			return
		}
	}
}
