package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

const (
	dialTimeout  = 2 * time.Second
	keepAlive    = 15 * time.Second                     // of TCP
	replyTimeout = patience                             // while a connection is made
	flushDelay   = 10 * time.Microsecond                // gathers what many goroutines ask; who is alone is not delayed
	callTimeout  = driver.MaxSilence - time.Second*3/10 // for a call that finds the gate closed
)

type dialFunc func(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error)

// clientOption makes the settings that Open's comment names.
func (s *Store) clientOption(o rueidis.ClientOption) rueidis.ClientOption {
	o.DisableRetry, o.DisableCache, o.AlwaysPipelining = true, true, true
	o.DisableAutoPipelining = false
	o.PipelineMultiplex = -1
	o.ConnLifetime = 0
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.ReplicaOnly, o.SendToReplicas, o.ReadNodeSelector = false, nil, nil
	o.Standalone = rueidis.StandaloneOption{}
	if o.Dialer.Timeout <= 0 || o.Dialer.Timeout > dialTimeout {
		o.Dialer.Timeout = dialTimeout
	}
	if o.ConnWriteTimeout <= 0 || o.ConnWriteTimeout > replyTimeout {
		o.ConnWriteTimeout = replyTimeout
	}
	quiet(&o.Dialer)
	if o.Sentinel.Dialer.Timeout <= 0 || o.Sentinel.Dialer.Timeout > dialTimeout {
		o.Sentinel.Dialer.Timeout = dialTimeout
	}
	quiet(&o.Sentinel.Dialer)
	if o.ReadBufferEachConn == 0 {
		o.ReadBufferEachConn = 1 << 16
	}
	if o.WriteBufferEachConn == 0 {
		o.WriteBufferEachConn = 1 << 16
	}
	if o.MaxFlushDelay == 0 {
		o.MaxFlushDelay = flushDelay
	}
	o.MaxFlushDelay = max(0, o.MaxFlushDelay)
	if o.ClusterOption.MaxMovedRedirections == 0 {
		o.ClusterOption.MaxMovedRedirections = 8
	}
	if o.Sentinel.MasterSet != "" && o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second
	}
	o.DialCtxFn, o.DialFn = s.watched(dialer(o)), nil
	return o
}

// quiet keeps the client from sending PINGs, and has the kernel look after
// connections on which nothing is written.
func quiet(d *net.Dialer) {
	d.KeepAlive = -1
	d.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive / 3, Count: 3}
}

// dialer is how o says to dial, as the client itself would.
func dialer(o rueidis.ClientOption) dialFunc {
	if o.DialCtxFn != nil {
		return o.DialCtxFn
	}
	if dial := o.DialFn; dial != nil {
		return func(_ context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			return dial(dst, d, t)
		}
	}
	return func(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if t != nil {
			return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", dst)
		}
		return d.DialContext(ctx, "tcp", dst)
	}
}

// watched tells the gate of every connection that is made or lost, and marks
// the error of one that is not made. A connection is made when the server says
// something on it: one to a frozen server, whose kernel takes it, never is, and
// so does not close the gate for other nodes. Close does not wait for a dial.
func (s *Store) watched(dial dialFunc) dialFunc {
	return func(ctx context.Context, dst string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		conn, err := dial(ctx, dst, d, t)
		if err != nil {
			return nil, &dialError{err}
		}
		return &watchedConn{Conn: conn, s: s, dst: dst}, nil
	}
}
