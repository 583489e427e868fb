package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/redis/rueidis"
)

const (
	keepAlive    = 15 * time.Second                     // TCP keep-alive of an idle connection
	replyTimeout = silenceLimit                         // limit for each reply while a connection is made
	flushDelay   = 10 * time.Microsecond                // for sending requests of several goroutines together; a single request is not delayed
	callTimeout  = driver.MaxSilence - time.Second*3/10 // how long a call waits for a check of the servers; see serverchecks.go
	bufferSize   = 1 << 16                              // bytes of each of the two buffers of a connection
)

// clientOption makes the client's settings. The client must not retry, because a script must not
// run twice. The client has one connection to each server, and sends all requests on that
// connection, one after the other. So a release never reaches the server before an acquire that was
// sent earlier.
//
// RingScaleEachConn must not be less than the default. It says how many requests of a connection
// can wait for replies. If there are more, a request waits for room and ignores its context.
func (s *Store) clientOption() rueidis.ClientOption {
	c := s.server
	o := rueidis.ClientOption{
		InitAddress: c.Addresses(), SelectDB: c.DB, ClientName: c.ClientName, TLSConfig: c.TLS,
		ForceSingleClient: c.Single(),
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
	if c.Sentinel.MasterName != "" {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: c.Sentinel.MasterName, Dialer: redisconn.ToSentinel(o.Dialer), TLSConfig: c.TLS,
			TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return o
}

// newDialer returns a dialer whose settings make the client send no PINGs. Instead, TCP keep-alive
// checks idle connections.
func newDialer() net.Dialer {
	return net.Dialer{
		Timeout: redisconn.DialTimeout, KeepAlive: -1,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive / 3, Count: 3},
	}
}

// dial makes a connection. Store.Close cancels a dial that has not ended.
//
// A new connection makes the store's checks invalid (serverchecks.go), but not before the first
// reply arrives on the connection. A frozen server can still accept connections, but sends no
// reply. If a connection to a frozen server made them invalid, requests to the other nodes would
// have to wait.
func (s *Store) dial(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	conn, err := s.server.Dial(ctx, dst, d, t)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, s: s, dst: dst}, nil
}

func loginOf(conn rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	user, password, err := redisconn.Login(conn.Address)
	return rueidis.AuthCredentials{Username: user, Password: password}, err
}
