package server

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy stands between a client and its server, and can interfere with the connections. It is
// safe for concurrent use.
type Proxy struct {
	to string
	l  net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]bool         // both ends of all connections
	lose   func(request []byte) bool // reports whether the reply to a request is to be lost; nil loses no reply
	refuse func(request []byte) bool // reports whether a connection is to be closed; nil closes none
	silent bool                      // connections stay open, but nothing passes
	closed bool
	wake   *sync.Cond
	wg     sync.WaitGroup
}

// NewProxy starts a proxy to a server. The proxy ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{to: to, l: l, conns: map[net.Conn]bool{}}
	p.wake = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.l.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Silence(false)
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
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
		p.join(client, srv)
	}
}

// join passes data between the two ends of a new connection. If the proxy was closed while it
// connected to the server, join closes the connection, because Close has not seen it.
func (p *Proxy) join(client, srv net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		client.Close()
		srv.Close()
		return
	}
	p.conns[client], p.conns[srv] = true, true
	lost := make(chan struct{})
	p.wg.Go(func() { p.requests(client, srv, lost) })
	p.wg.Go(func() { p.replies(client, srv, lost) })
}

// Cut closes all connections without warning. New connections are still possible.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
		delete(p.conns, c)
	}
}

// Silence(true) stops the traffic on all connections, without closing them. Silence(false) lets it
// continue.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
	p.wake.Broadcast()
}

// LoseReply makes the proxy drop one reply. The proxy calls isChosen with the data of each read
// from a client, until isChosen returns true. The proxy still sends this data to the server. Then
// it drops the server's reply and closes the connection.
func (p *Proxy) LoseReply(isChosen func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = isChosen
}

// Refuse makes the proxy close a connection as soon as its client sends data for which isChosen
// returns true. The data does not reach the server. Refuse also closes all present connections, so
// that their clients have to connect and send again. Refuse(nil) lets all data pass again.
func (p *Proxy) Refuse(isChosen func(request []byte) bool) {
	p.mu.Lock()
	p.refuse = isChosen
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) refuses(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse != nil && p.refuse(request)
}

// passRequest waits while the proxy is silent. It reports whether the reply to this request is to
// be lost.
func (p *Proxy) passRequest(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silent {
		p.wake.Wait()
	}
	if request == nil || p.lose == nil || !p.lose(request) {
		return false
	}
	p.lose = nil
	return true
}

func (p *Proxy) requests(client, srv net.Conn, lost chan struct{}) {
	defer client.Close()
	defer srv.Close()
	buf := make([]byte, 1<<16)
	losing := false
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if p.refuses(buf[:n]) {
			return
		}
		if losing {
			p.passRequest(nil) // the reply to this request is lost as well
		} else if losing = p.passRequest(buf[:n]); losing {
			close(lost)
		}
		if _, err := srv.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) replies(client, srv net.Conn, lost chan struct{}) {
	defer client.Close()
	defer srv.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := srv.Read(buf)
		if err != nil {
			return
		}
		p.passRequest(nil)
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
