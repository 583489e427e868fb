package redisstore

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config says where Redis is and how to log in. Either Addrs or Socket is required. Every other
// field may be left out. Open returns driver.ErrInvalid for a wrong field.
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

	// Credentials returns the user and the password for every new connection; Login makes such a
	// function from a fixed password. It is a function so that nothing that prints a Config shows
	// the password, and so that credentials can change while the store is open. Existing
	// connections stay logged in. Without Credentials, nobody logs in.
	//
	// Credentials must be safe for concurrent use. It must return when ctx ends; ctx ends after 2 s
	// at most. If Credentials returns an error, callers of the store see that error, so the error
	// must not contain a secret.
	Credentials func(ctx context.Context) (user, password string, err error)
	// DB is the number of the database, 0 or more. A cluster has only database 0. Open returns
	// driver.ErrInvalid for any other number.
	DB int
	// ClientName is the name of the connections in CLIENT LIST.
	ClientName string

	// TLS, if not nil, is used for all connections, including those to sentinels. If its ServerName
	// is empty, the certificate is checked against the host of the address.
	TLS *tls.Config
	// Dial, if not nil, makes the connections, instead of a net.Dialer. network is "tcp" or "unix".
	// The connection must be without TLS: if Config.TLS is set, the client makes the handshake
	// afterwards. ctx ends after 2 s at most. Dial must be safe for concurrent use.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Sentinel has the name of the primary that the sentinels watch, and the login at the sentinels.
// MasterName is required if there are sentinels. Every other field may be left out. Open returns
// driver.ErrInvalid for a wrong field.
type Sentinel struct {
	// MasterName is the name under which the sentinels watch the primary, as in the line
	// "sentinel monitor NAME HOST PORT QUORUM" of their configuration.
	MasterName string
	// Credentials returns the login at the sentinels. Config.Credentials returns the login at the
	// servers, and works in the same way. Sentinels without a password need no login.
	Credentials func(ctx context.Context) (user, password string, err error)
}

// Login returns Credentials for a password that does not change. If user is empty, the user is
// "default". If password is empty too, Login returns nil, and nobody logs in.
func Login(user, password string) func(ctx context.Context) (user, password string, err error) {
	return storeurl.Login(user, password)
}
