package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

const (
	dialTimeout  = 2 * time.Second
	keepAlive    = 15 * time.Second                     // of TCP
	replyTimeout = patience                             // while a connection is made
	flushDelay   = 10 * time.Microsecond                // gathers the requests of many goroutines; a single one is not delayed
	callTimeout  = driver.MaxSilence - time.Second*3/10 // for a call that finds the gate closed
	bufferSize   = 1 << 16                              // of a connection, for each direction
)

// clientOption makes the client's settings. The client may not retry, since a script must not run
// twice. It has one connection per server, on which all requests are pipelined, so that a release
// reaches the server after the acquire that it follows.
func (s *Store) clientOption() rueidis.ClientOption {
	c := &s.server
	o := rueidis.ClientOption{
		InitAddress: c.Addrs, SelectDB: c.DB, ClientName: c.ClientName, TLSConfig: c.TLS,
		ForceSingleClient: !c.Cluster && c.Sentinel.MasterName == "",
		DisableRetry:      true, DisableCache: true, AlwaysPipelining: true,
		PipelineMultiplex:   -1,
		ClientSetInfo:       rueidis.DisableClientSetInfo,
		Dialer:              newDialer(),
		ConnWriteTimeout:    replyTimeout,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
		MaxFlushDelay:       flushDelay,
		ClusterOption:       rueidis.ClusterOption{MaxMovedRedirections: 8},
		DialCtxFn:           s.dial,
		AuthCredentialsFn:   loginOf,
	}
	if c.Socket != "" {
		o.InitAddress = []string{c.Socket}
	}
	if c.Sentinel.MasterName != "" {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: c.Sentinel.MasterName, Dialer: newDialer(), TLSConfig: c.TLS, TopologyRefreshInterval: 5 * time.Second,
		}
		o.Sentinel.Dialer.Resolver = toSentinel
	}
	return o
}

// newDialer keeps the client from sending PINGs, and lets the kernel check connections on which
// nothing is written.
func newDialer() net.Dialer {
	return net.Dialer{
		Timeout: dialTimeout, KeepAlive: -1,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive / 3, Count: 3},
	}
}

// toSentinel marks the dialer of connections to sentinels. It resolves names like a nil Resolver.
var toSentinel = &net.Resolver{}

// dial makes a connection and finds its credentials. It marks the error of a connection that was
// not made. Close does not wait for it.
//
// The gate counts a connection as made when the first reply arrives. The kernel of a frozen server
// still accepts connections, but no reply comes, so such a connection does not close the gate for
// other nodes.
func (s *Store) dial(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	user, password, err := s.server.login(ctx, d.Resolver == toSentinel)
	if err != nil {
		return nil, &dialError{err}
	}
	conn, err := s.server.connect(ctx, dst, d, t)
	if err != nil {
		return nil, &dialError{err}
	}
	return &watchedConn{Conn: conn, s: s, dst: dst, login: login{conn.RemoteAddr(), user, password}}, nil
}

// connect dials, and makes the TLS handshake, if any.
func (c *Config) connect(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	network, dial := "tcp", d.DialContext
	if c.Socket != "" {
		network = "unix"
	}
	if c.Dial != nil {
		dial = c.Dial
	}
	conn, err := dial(ctx, network, dst)
	if err != nil || t == nil {
		return conn, err
	}
	if t.ServerName == "" {
		t = t.Clone()
		if t.ServerName, _, err = net.SplitHostPort(dst); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := tls.Client(conn, t)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error says more
		return nil, err
	}
	return secure, nil
}

// login is the address of a connection together with its credentials. The client asks for
// credentials without a context, and does not say whether they are for a sentinel. dial knows both,
// so dial finds the credentials, and the client gets them from the address.
type login struct {
	net.Addr
	user, password string
}

func loginOf(conn rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	l, ok := conn.Address.(login)
	if !ok {
		return rueidis.AuthCredentials{}, errors.New("the connection was not made by dial")
	}
	return rueidis.AuthCredentials{Username: l.user, Password: l.password}, nil
}
