package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// maxConnections is how many connections padlock serve has at the same time. A request to the API
// may keep a connection for 25 seconds, so the API lets at most maxConnections/2 requests wait.
const maxConnections = 4096

// limitedTo returns a listener with at most n open connections, and at most n/2 from one address.
// With IPv6 a network of 64 bits counts as one address, because a client usually has a whole one.
// When a limit is reached, the connection closes that has been idle for longest. Without an idle
// one, a new connection waits, or is closed if its own address has too many.
func limitedTo(at net.Listener, n int) *limitedListener {
	return &limitedListener{
		Listener: at, most: n, each: max(1, n/2), open: make(map[*limitedConn]bool), of: make(map[netip.Addr]int),
		freed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

type limitedListener struct {
	net.Listener
	most, each int
	shared     func(netip.Addr) bool // many clients share the address; nil: no address is shared
	once       sync.Once
	closed     chan struct{}
	freed      chan struct{} // has an element after a connection was closed or became idle

	mu   sync.Mutex
	open map[*limitedConn]bool
	of   map[netip.Addr]int // by networkOf
}

// limitedConn is a connection that makes room for another one when it is closed.
type limitedConn struct {
	net.Conn
	from netip.Addr // the zero Addr for a socket without addresses
	free func()
	idle time.Time // since when, or zero while a request is under way; guarded by limitedListener.mu
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.free()
	return err
}

// Accept waits for a connection, and then until there is room for it.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, from: addressOf(conn.RemoteAddr()), idle: time.Now()}
		c.free = sync.OnceFunc(func() { l.remove(c) })
		for {
			added, refused := l.add(c)
			if added {
				return c, nil
			}
			if refused {
				conn.Close()
				break
			}
			select {
			case <-l.freed:
			case <-l.closed:
				conn.Close()
				return nil, net.ErrClosed
			}
		}
	}
}

// add counts the connection if there is room, and makes room if it can. It reports whether the
// connection was added, or must be refused.
func (l *limitedListener) add(c *limitedConn) (added, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, network := c.from.IsValid() && (l.shared == nil || !l.shared(c.from)), networkOf(c.from)
	if one && l.of[network] >= l.each && !l.closeIdle(func(other *limitedConn) bool { return networkOf(other.from) == network }) {
		return false, true
	}
	if len(l.open) >= l.most && !l.closeIdle(func(*limitedConn) bool { return true }) {
		return false, false
	}
	l.open[c] = true
	l.of[network]++
	return true, false
}

// closeIdle closes the connection that has been idle for longest. The caller holds l.mu.
func (l *limitedListener) closeIdle(among func(*limitedConn) bool) bool {
	var longest *limitedConn
	for c := range l.open {
		if !c.idle.IsZero() && among(c) && (longest == nil || c.idle.Before(longest.idle)) {
			longest = c
		}
	}
	if longest == nil {
		return false
	}
	l.forget(longest)
	go longest.Close() // it calls remove, which needs l.mu
	return true
}

func (l *limitedListener) remove(c *limitedConn) {
	l.mu.Lock()
	l.forget(c)
	l.mu.Unlock()
	l.wake()
}

// wake makes a blocked Accept look for room.
func (l *limitedListener) wake() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// forget counts the connection no more. The caller holds l.mu.
func (l *limitedListener) forget(c *limitedConn) {
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	network := networkOf(c.from)
	if l.of[network]--; l.of[network] == 0 {
		delete(l.of, network)
	}
}

// note is the ConnState of the server: it tells which connections are idle.
func (l *limitedListener) note(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*limitedConn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateIdle:
		c.idle = time.Now()
		l.wake()
	case http.StateActive:
		c.idle = time.Time{}
	}
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// addressOf returns the IP address of a client, or the zero Addr if it has none.
func addressOf(at net.Addr) netip.Addr {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// networkOf returns the IPv4 address, or the IPv6 network of 64 bits, by which connections count.
func networkOf(at netip.Addr) netip.Addr {
	if network, err := at.WithZone("").Prefix(64); at.Is6() && err == nil {
		return network.Addr()
	}
	return at
}
