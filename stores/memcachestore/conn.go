package memcachestore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

const (
	dialLimit = 2 * time.Second
	callLimit = 4 * time.Second // less than driver.MaxSilence
)

// client sends the requests of a store over one connection. The server replies in the order of the
// requests, so many callers share the connection and none waits for another's reply.
type client struct {
	config Config
	turn   chan struct{} // full while a caller dials or writes

	mu     sync.Mutex
	link   *link // the last connection; it may have ended
	closed bool
	reads  sync.WaitGroup
}

// link is one connection.
type link struct {
	conn net.Conn
	over chan struct{} // closed when the connection has ended

	mu      sync.Mutex
	waiting []chan<- answer // one for each request without a reply, the oldest first
	err     error           // why the connection ended
}

type answer struct {
	reply reply
	err   error
}

func newClient(c Config) *client { return &client{config: c, turn: make(chan struct{}, 1)} }

// roundTrip sends a request and returns the reply. If ctx ends first, the reply is dropped when it
// comes.
func (c *client) roundTrip(ctx context.Context, request []byte) (reply, error) {
	return c.roundTripOn(ctx, nil, request)
}

// errOtherLink means that a request was not sent, because its connection has ended.
var errOtherLink = errors.New("the connection of an earlier request has ended")

// roundTripOn is like roundTrip, but can require a certain connection. If sameLink is not nil and
// has ended, roundTripOn returns errOtherLink.
func (c *client) roundTripOn(ctx context.Context, sameLink *link, request []byte) (reply, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	l, got, err := c.sendRequest(limited, sameLink, request)
	if err != nil {
		return reply{}, err
	}
	select {
	case a := <-got:
		a.reply.over = l
		return a.reply, a.err
	case <-limited.Done():
		if ctx.Err() == nil {
			l.endLink(errors.New("the server is silent"))
		}
		return reply{}, limited.Err()
	}
}

// sendRequest writes a request and does not wait for the reply. See roundTripOn for sameLink.
func (c *client) sendRequest(ctx context.Context, sameLink *link, request []byte) (*link, <-chan answer, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, &storekit.NoReply{Err: ctx.Err(), Unsent: true}
	}
	defer func() { <-c.turn }()
	if err := ctx.Err(); err != nil {
		return nil, nil, &storekit.NoReply{Err: err, Unsent: true}
	}
	l, err := c.liveConn(ctx)
	if err != nil {
		return nil, nil, &storekit.NoReply{Err: err, Unsent: true}
	}
	if sameLink != nil && l != sameLink {
		return nil, nil, &storekit.NoReply{Err: errOtherLink, Unsent: true}
	}
	got := make(chan answer, 1)
	if !l.expect(got) {
		return nil, nil, &storekit.NoReply{Err: l.err, Unsent: true}
	}
	// The deadline is not the caller's, because a write that is cut off ends the connection for
	// all callers.
	_ = l.conn.SetWriteDeadline(time.Now().Add(driver.MaxSilence)) // if it fails, so does the write
	if _, err := l.conn.Write(request); err != nil {
		l.endLink(err)
		return nil, nil, err
	}
	return l, got, nil
}

// liveConn returns the client's connection. If it is known that the connection has ended, liveConn
// makes a new one. The caller must hold c.turn.
func (c *client) liveConn(ctx context.Context) (*link, error) {
	c.mu.Lock()
	l, closed := c.link, c.closed
	c.mu.Unlock()
	if closed {
		return nil, driver.ErrClosed
	}
	if l != nil && !l.ended() {
		return l, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c.setConn(conn)
}

// setConn makes conn the connection of the client, and starts to read its replies.
func (c *client) setConn(conn net.Conn) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, driver.ErrClosed
	}
	c.link = &link{conn: conn, over: make(chan struct{})}
	c.reads.Go(c.link.readReplies)
	return c.link, nil
}

// dial connects and logs in.
func (c *client) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	dial := c.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	network, addr := c.config.network()
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secured, err := c.secure(ctx, conn)
	if err == nil {
		err = c.login(ctx, secured)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

func (c *client) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if c.config.TLS == nil {
		return conn, nil
	}
	config := c.config.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(c.config.Addr)
	}
	secured := tls.Client(conn, config)
	return secured, secured.HandshakeContext(ctx)
}

func (c *client) login(ctx context.Context, conn net.Conn) error {
	if c.config.Credentials == nil {
		return nil
	}
	user, password, err := c.config.Credentials(ctx)
	if err == nil {
		err = checkLogin(user, password)
	}
	if err != nil || user+password == "" {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(loginRequest(user, password)); err != nil {
		return err
	}
	r, err := readReply(bufio.NewReader(conn)) // the server sends nothing more before the next request
	if err != nil {
		return err
	}
	if r.word != "STORED" {
		return fmt.Errorf("%w: memcached refuses the login: %s", driver.ErrUnavailable, r.text)
	}
	return conn.SetDeadline(time.Time{})
}

// close ends the connection and waits until nobody reads from it.
func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.endLink(driver.ErrClosed)
	}
	c.reads.Wait()
}

func (l *link) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// expect adds a request to those that wait for a reply, unless the connection has ended.
func (l *link) expect(got chan<- answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.waiting = append(l.waiting, got)
	return true
}

// readReplies gives each reply to the oldest request that waits for one. It also notices at once
// when the server ends, so that the next request goes to a new connection.
func (l *link) readReplies() {
	from := bufio.NewReader(l.conn)
	for {
		r, err := readReply(from)
		if err != nil {
			l.endLink(err)
			return
		}
		got := l.next()
		if got == nil {
			l.endLink(fmt.Errorf("a reply that nobody asked for: %q", r.text))
			return
		}
		got <- answer{reply: r}
		if r.confused() {
			l.endLink(errors.New("another request was refused: " + r.text))
			return
		}
	}
}

func (l *link) next() chan<- answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	got := l.waiting[0]
	l.waiting = l.waiting[1:]
	return got
}

// endLink closes the connection. Every request without a reply gets err.
func (l *link) endLink(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	close(l.over)
	l.conn.Close()
	for _, got := range l.waiting {
		got <- answer{err: err}
	}
	l.waiting = nil
}
