package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// DialTimeout bounds the time to find the credentials and to make a connection.
const DialTimeout = 2 * time.Second

// DialError says that a connection was not made, so nothing was sent.
type DialError struct{ err error }

func (e *DialError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *DialError) Unwrap() error { return e.err }

// ToSentinel returns d, marked as the dialer of connections to sentinels.
func ToSentinel(d net.Dialer) net.Dialer {
	d.Resolver = sentinelMark
	return d
}

// sentinelMark is the Resolver of all dialers for connections to sentinels, and of no other
// dialers. So Dial can tell whether it connects to a sentinel. The Resolver itself does what Go's
// default resolver does.
var sentinelMark = &net.Resolver{}

// Dial finds the credentials for a connection to dst, and makes the connection. The connection
// keeps the credentials for Login, which finds them in RemoteAddr. The error is a *DialError.
func (s *Server) Dial(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	user, password, err := s.login(ctx, d.Resolver == sentinelMark)
	if err != nil {
		return nil, &DialError{err}
	}
	c, err := s.connect(ctx, dst, d, t)
	if err != nil {
		return nil, &DialError{s.nameSource(dst, d.Resolver == sentinelMark, err)}
	}
	return s.keep(c, dst, &login{c.RemoteAddr(), func() (string, string) { return user, password }}), nil
}

// nameSource adds to err who has named the address dst, unless the user has. Servers in containers
// often name addresses that only their own network reaches.
func (s *Server) nameSource(dst string, toSentinel bool, err error) error {
	source, setting := "the cluster names", "cluster-announce-ip"
	switch {
	case s.Sentinel.MasterName != "" && !toSentinel:
		source, setting = "the sentinels name", "replica-announce-ip"
	case !s.Cluster || slices.Contains(s.Addrs, dst):
		return err
	}
	return fmt.Errorf("%w (%s the address %s; if that server runs, set its %s to an address that this machine can reach)", err, source, dst, setting)
}

// connect dials, and makes the TLS handshake if t is not nil.
func (s *Server) connect(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	network, dial := "tcp", d.DialContext
	if s.Socket != "" {
		network = "unix"
	}
	if s.Config.Dial != nil {
		dial = s.Config.Dial
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
		_ = conn.Close() // the caller gets the error of the handshake instead
		return nil, err
	}
	return secure, nil
}

// login is the address of a connection together with its credentials. The client calls Login to get
// the credentials of a connection, but passes only the address. Login cannot find the credentials
// from the address alone. Dial can: it has a context, and knows whether the server is a sentinel.
// So Dial puts the credentials into the address.
type login struct {
	net.Addr
	credentials func() (user, password string) // a func, so that nothing that prints the connection shows them
}

// Login returns the credentials for a connection. It finds them in the connection's RemoteAddr,
// where Dial has put them.
func Login(addr net.Addr) (user, password string, err error) {
	l, ok := addr.(*login)
	if !ok {
		return "", "", errors.New("the connection was not made by Dial")
	}
	user, password = l.credentials()
	return user, password, nil
}
