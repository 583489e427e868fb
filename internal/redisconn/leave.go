package redisconn

import (
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// A server that was demoted keeps its connections, and behind a fixed address (a Service of
// Kubernetes, HAProxy, the DNS name of a cloud) only a new connection reaches the new primary. So
// the connections to a server that refuses because of its role must end. The client, rueidis,
// cannot end one of its connections. It makes a new one when a read fails.

// roleCodes are the codes of the replies of a server that is not the primary.
var roleCodes = []string{"READONLY", "MASTERDOWN"}

// WrongRole reports whether reply is the error of a server that refused a request because the
// server is not the primary. Such a request has changed nothing. Redis 6.2 puts the name of a script
// before the code.
func WrongRole(reply string) bool {
	for _, code := range roleCodes {
		if strings.HasPrefix(reply, code) ||
			strings.HasPrefix(reply, "ERR Error running script") && strings.Contains(reply, ": -"+code) {
			return true
		}
	}
	return false
}

// conn is a connection that Dial made.
type conn struct {
	net.Conn
	login  *login
	server *Server
	dst    string

	refused atomic.Bool   // a reply may have been of a server with the wrong role
	closes  atomic.Int32  // how often the client has called Close
	closed  chan struct{} // is closed when the client uses the connection no more
}

// Read notes whether the server may have refused a request because of its role. A value can contain
// the same bytes. So the note decides nothing alone: it says which connections LeaveRefusing ends.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for _, code := range roleCodes {
		if bytes.Contains(b[:n], []byte("-"+code)) {
			c.refused.Store(true)
		}
	}
	return n, err
}

// Close implements net.Conn. Only the client calls it. When a read fails, the client calls Close,
// then makes sure that no request uses the connection any more, and then calls Close again.
func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	if c.closes.Add(1) == 2 {
		close(c.closed)
	}
	return c.Conn.Close()
}

// RemoteAddr returns the address together with the credentials, for Login.
func (c *conn) RemoteAddr() net.Addr { return c.login }

// LeaveRefusing ends all connections to addresses where a server has refused a request because of
// its role (WrongRole). The caller has got such a reply. When LeaveRefusing returns, the client has
// noticed the end, so the next request makes a new connection. The client must read all the time
// (rueidis: AlwaysPipelining). Requests whose replies have not arrived fail without a reply.
//
// Each connection ends once. If many requests were refused together, the first call ends the
// connections and the other calls wait for that.
func (s *Server) LeaveRefusing() {
	s.leave(func(c *conn) bool { return c.refused.Load() })
}

// Leave ends all connections to the address dst, as LeaveRefusing does.
func (s *Server) Leave(dst string) {
	s.leave(func(c *conn) bool { return c.dst == dst })
}

// noticeTime limits the wait until the client has noticed the end of connections. A connection on
// which the client was logging in is closed only once.
const noticeTime = 100 * time.Millisecond

// leave ends all connections to the addresses of the chosen connections. Connections that are idle
// were opened in the same period, and usually lead to the same server.
func (s *Server) leave(chosen func(*conn) bool) {
	s.leaving.Lock()
	defer s.leaving.Unlock()
	addresses := map[string]bool{}
	var ending []*conn
	s.mu.Lock()
	for c := range s.conns {
		if chosen(c) {
			addresses[c.dst] = true
		}
	}
	for c := range s.conns {
		if addresses[c.dst] {
			ending = append(ending, c)
			delete(s.conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range ending {
		_ = c.Conn.Close() // the client's read fails
	}
	limit := time.NewTimer(noticeTime)
	defer limit.Stop()
	for _, c := range ending {
		select {
		case <-c.closed:
		case <-limit.C:
			return
		}
	}
}

// keep remembers a connection until the client closes it.
func (s *Server) keep(nc net.Conn, dst string, l *login) net.Conn {
	c := &conn{Conn: nc, login: l, server: s, dst: dst, closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	s.conns[c] = struct{}{}
	return c
}
