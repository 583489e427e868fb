// Package lossy forwards TCP connections, and loses data on demand.
package lossy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Loss says which data a proxy loses.
type Loss int

// The values of Loss say what a proxy loses: no data, the server's replies, or all data in both
// directions. When a loss ends, the proxy closes the connections that lost data, because the rest
// of a stream makes no sense without its beginning.
const (
	Nothing Loss = iota
	Replies
	Everything
)

// Proxy is a proxy that listens only on this machine. It is safe for concurrent use.
type Proxy struct {
	to       string
	listener net.Listener
	mu       sync.Mutex
	loss     Loss
	pairs    map[*pair]bool
	running  sync.WaitGroup
	closed   bool
}

// pair is a client's connection and the proxy's own connection to the server.
type pair struct {
	client, server net.Conn
	lost           bool
}

// Listen starts a proxy that forwards connections to the given address.
func Listen(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{to: to, listener: l, pairs: map[*pair]bool{}}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all its connections, and returns when they are gone.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.running.Wait()
	return err
}

// Lose starts a loss and ends the previous one.
func (p *Proxy) Lose(what Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss = what
	for c := range p.pairs {
		if c.lost {
			c.closeBoth()
		}
	}
}

// Reset closes all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.closeBoth()
	}
}

// closeBoth closes both sides at once and discards unsent data.
func (c *pair) closeBoth() {
	for _, conn := range []net.Conn{c.client, c.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send a reset to the other side
		}
		_ = conn.Close() // an error does not matter here
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(5 * time.Millisecond) // this connection failed, or too many are open at the moment
			continue
		}
		p.running.Go(func() { p.serveClient(client) })
	}
}

// serveClient serves one client connection.
func (p *Proxy) serveClient(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close() // the client notices that
		return
	}
	c := &pair{client: client, server: server}
	p.mu.Lock()
	p.pairs[c] = true
	closed := p.closed
	p.mu.Unlock()
	if closed {
		c.closeBoth()
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(c, server, client, Everything) })
	both.Go(func() { p.copy(c, client, server, Replies) })
	both.Wait()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// copy forwards the data of one direction until either side ends. The data is lost while the
// proxy's Loss is at least minLoss.
func (p *Proxy) copy(c *pair, to io.Writer, from io.Reader, minLoss Loss) {
	defer c.closeBoth()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.loses(c, minLoss) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// loses reports whether the data that was just read is lost. If the data is lost, loses marks the
// connection, so that the proxy closes it later.
func (p *Proxy) loses(c *pair, minLoss Loss) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss < minLoss {
		return false
	}
	c.lost = true
	return true
}
