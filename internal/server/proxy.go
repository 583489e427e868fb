package server

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy stands between a client and its server, and can interfere with the connections. It is
// safe for concurrent use.
type Proxy struct {
	l       net.Listener
	dialing context.Context // ends with Close
	stop    context.CancelFunc

	mu      sync.Mutex
	to      string
	links   map[*link]bool
	lose    func(request []byte) bool // reports whether the reply to a request is to be lost; nil loses no reply
	refuse  func(request []byte) bool // reports whether a connection is to be closed; nil closes none
	silent  bool                      // connections stay open, but nothing passes
	trouble [2]Trouble                // by direction
	calmed  chan struct{}             // closed when the trouble changes, so that delays end
	closed  bool
	cuts    int // how often all connections were closed
	wake    *sync.Cond
	wg      sync.WaitGroup
}

// link is one connection through a Proxy. The Proxy's mu guards its flags.
type link struct {
	client, srv net.Conn
	losing      bool // LoseReply has chosen a request of this connection, so no more replies pass
	holed       bool // data was lost, so that the rest of the stream would make no sense
	stranded    bool // nothing passes any more; see Strand
}

// close closes both ends.
func (l *link) close() {
	l.client.Close()
	l.srv.Close()
}

// reset closes both ends so that their peers see a reset instead of an end.
func (l *link) reset() {
	for _, end := range []net.Conn{l.client, l.srv} {
		if tcp, ok := end.(*net.TCPConn); ok {
			tcp.SetLinger(0) // if it fails, the connection ends without a reset
		}
	}
	l.close()
}

// Trouble is what a Proxy does to the data in one direction. The zero value lets the data pass.
type Trouble struct {
	// Delay is how long each piece of data is kept back, and Jitter is how much that may differ, up
	// and down.
	Delay, Jitter time.Duration
	Lose          bool // the data does not arrive, and the connection stays open
	Reset         bool // the connection is reset in place of the data
}

// direction is the index of a Trouble.
type direction int

const (
	requests direction = iota
	replies
)

// NewProxy starts a proxy to a server. The proxy ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{to: to, l: l, links: map[*link]bool{}, calmed: make(chan struct{})}
	p.dialing, p.stop = context.WithCancel(context.Background())
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
	p.stop()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Silence(false)
	p.Disturb(Trouble{}, Trouble{})
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.connect(client) }) // a server that stands still must not keep others waiting
	}
}

// connect passes on the data of a client's connection until the connection ends.
func (p *Proxy) connect(client net.Conn) {
	p.mu.Lock()
	to, cuts := p.to, p.cuts
	p.mu.Unlock()
	srv, err := new(net.Dialer).DialContext(p.dialing, "tcp", to)
	if err != nil {
		client.Close()
		return
	}
	p.join(client, srv, cuts)
}

// join passes data between the two ends of a new connection until it ends. If all connections were
// closed while the proxy connected to the server, join closes the connection, because Cut has not
// seen it. The argument cuts is p.cuts from before.
func (p *Proxy) join(client, srv net.Conn, cuts int) {
	l := &link{client: client, srv: srv}
	p.mu.Lock()
	if p.closed || p.cuts != cuts {
		p.mu.Unlock()
		l.close()
		return
	}
	p.links[l] = true
	p.wg.Go(func() { p.pass(l, replies, srv, client) })
	p.mu.Unlock()
	p.pass(l, requests, client, srv)
}

// Cut closes all connections without warning. New connections are still possible.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for l := range p.links {
		l.close()
		delete(p.links, l)
	}
}

// Point makes the proxy connect to another server from now on, and closes all connections.
func (p *Proxy) Point(to string) {
	p.Lead(to)
	p.Cut()
}

// Lead makes the proxy connect to another server from now on. The connections that exist stay.
func (p *Proxy) Lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// Silence(true) stops the traffic on all connections, without closing them. Silence(false) lets it
// continue.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
	p.wake.Broadcast()
}

// Disturb says what happens to the data of present and new connections from now on. Data that is
// delayed already passes at once. A connection that has lost data is closed, because the rest of
// its data would make no sense. Two zero values end all trouble.
func (p *Proxy) Disturb(ofRequests, ofReplies Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = [2]Trouble{ofRequests, ofReplies}
	close(p.calmed)
	p.calmed = make(chan struct{})
	for l := range p.links {
		if l.holed {
			l.close()
			delete(p.links, l)
		}
	}
}

// Strand makes all data on the present connections vanish, in both directions, until one of the two
// ends gives up. So does a firewall that forgets its connections. New connections work.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stranded = true
	}
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

// pass passes on what one end of a connection sends, until the connection ends.
func (p *Proxy) pass(l *link, dir direction, from, to net.Conn) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.close()
		delete(p.links, l)
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.wait(dir)
		arrives, goesOn := p.judge(l, dir, buf[:n])
		if !goesOn {
			return
		}
		if !arrives {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// wait keeps data back for as long as the trouble says, and while the proxy is silent.
func (p *Proxy) wait(dir direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, calmed := p.trouble[dir], p.calmed
	if d := t.Delay - t.Jitter + time.Duration(rand.Int64N(int64(2*t.Jitter)+1)); d > 0 {
		p.mu.Unlock()
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-calmed:
		}
		timer.Stop()
		p.mu.Lock()
	}
	for p.silent {
		p.wake.Wait()
	}
}

// judge reports whether data arrives, and whether its connection goes on.
func (p *Proxy) judge(l *link, dir direction, data []byte) (arrives, goesOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trouble[dir]
	switch {
	case t.Reset:
		l.reset()
		return false, false
	case l.stranded:
		return false, true
	case t.Lose:
		l.holed = true
		return false, true
	case dir == replies:
		return true, !l.losing
	case p.refuse != nil && p.refuse(data):
		return false, false
	case p.lose != nil && !l.losing && p.lose(data):
		l.losing, p.lose = true, nil
	}
	return true, true
}
