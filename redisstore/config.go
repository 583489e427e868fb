package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
)

// Config says where Redis is and how to log in. One of Addrs and Socket is
// required; every other field may be left out.
type Config struct {
	// Addrs are addresses, each HOST:PORT: one address of a server, or one or more nodes of a
	// cluster (with Cluster), or one or more sentinels (with Sentinel).
	Addrs []string
	// Socket is the path of the Unix socket of a server, instead of Addrs.
	Socket string
	// Cluster is set for a Redis Cluster. The store finds the other nodes itself.
	Cluster bool
	// Sentinel is set if sentinels know which server is the primary.
	Sentinel Sentinel

	// User and Password log in at the server. If only Password is set, the user is "default".
	User, Password string
	// Credentials is called for every new connection, instead of using User and Password, so
	// credentials can change while the store is open. Existing connections stay logged in.
	// Credentials must be safe for concurrent use, and return when ctx ends, after at most 2 s.
	// Callers of the store see its error, so the error must not contain a secret.
	Credentials func(ctx context.Context) (user, password string, err error)
	// DB is the number of the database. A cluster has only database 0.
	DB int
	// ClientName is the name of the connections in CLIENT LIST.
	ClientName string

	// TLS, if not nil, is used for every connection, to sentinels too. If its ServerName is empty,
	// the host of the address is used.
	TLS *tls.Config
	// Dial, if not nil, makes the connections, instead of a net.Dialer. network is "tcp" or "unix".
	// With TLS, the handshake follows on the connection that Dial returns. ctx ends after at most
	// 2 s. Dial must be safe for concurrent use.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Sentinel says what to ask the sentinels for, and how to log in there.
type Sentinel struct {
	// MasterName is the name under which the sentinels watch the primary, as in the line
	// "sentinel monitor NAME HOST PORT QUORUM" of their configuration.
	MasterName string
	// User, Password and Credentials log in at the sentinels, as the fields of Config do at the
	// servers. Sentinels without a password need none of them.
	User, Password string
	Credentials    func(ctx context.Context) (user, password string, err error)
}

// check refuses settings that contradict each other.
func (c *Config) check() error {
	if err := c.checkPlace(); err != nil {
		return err
	}
	if err := checkLogin("", c.User, c.Password, c.Credentials != nil); err != nil {
		return err
	}
	s := &c.Sentinel
	if s.MasterName == "" && (s.User != "" || s.Password != "" || s.Credentials != nil) {
		return invalid("Sentinel: there is a login but no MasterName; set it to the name that the sentinels have for the primary")
	}
	if err := checkLogin("Sentinel.", s.User, s.Password, s.Credentials != nil); err != nil {
		return err
	}
	for _, r := range c.ClientName {
		if r < '!' || r > '~' {
			return invalid("ClientName: Redis allows only visible ASCII characters and no spaces")
		}
	}
	return nil
}

func (c *Config) checkPlace() error {
	sentinel := c.Sentinel.MasterName != ""
	switch {
	case len(c.Addrs) == 0 && c.Socket == "":
		return invalid("there is no address; set Addrs or Socket")
	case len(c.Addrs) > 0 && c.Socket != "":
		return invalid("Addrs and Socket are both set; set one of them")
	case c.Socket != "" && (c.Cluster || sentinel):
		return invalid("Socket: a cluster and sentinels are reached by Addrs")
	case c.Socket != "" && c.TLS != nil:
		return invalid("Socket: Redis has no TLS on a Unix socket; leave TLS out, or set Addrs")
	case c.Cluster && sentinel:
		return invalid("Cluster and Sentinel are both set; a cluster does without sentinels")
	case len(c.Addrs) > 1 && !c.Cluster && !sentinel:
		return invalid("Addrs has %d addresses, but neither Cluster nor Sentinel is set; set one of them, or give one address", len(c.Addrs))
	case c.DB < 0 || c.Cluster && c.DB != 0:
		return invalid("DB: it is %d; allowed are numbers from 0, and in a cluster only 0", c.DB)
	}
	for _, addr := range c.Addrs {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return invalid("Addrs: %q is not of the form HOST:PORT", addr)
		}
	}
	return nil
}

func checkLogin(where, user, password string, asked bool) error {
	switch {
	case asked && (user != "" || password != ""):
		return invalid("%sCredentials is set together with User or Password; set one or the other", where)
	case user != "" && password == "":
		return invalid("%sUser is set without Password or Credentials; for a user without a password any password will do", where)
	}
	return nil
}

// copied returns a copy of c that the caller cannot change.
func (c Config) copied() Config {
	c.Addrs = slices.Clone(c.Addrs)
	c.TLS = c.TLS.Clone()
	return c
}

// login returns the credentials for a new connection.
func (c *Config) login(ctx context.Context, sentinel bool) (user, password string, err error) {
	user, password, ask := c.User, c.Password, c.Credentials
	if sentinel {
		user, password, ask = c.Sentinel.User, c.Sentinel.Password, c.Sentinel.Credentials
	}
	if ask != nil {
		return ask(ctx)
	}
	return user, password, nil
}
