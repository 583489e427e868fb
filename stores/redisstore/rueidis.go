package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// FromRueidis returns the settings of the client that rueidis.NewClient would make. The store makes
// connections of its own, because the requests of a lock must keep their order, and none may be sent
// twice.
//
// The addresses, the dialer, TLS, the login, the sentinels, the database and the name of the connections
// are taken over. Several addresses are a cluster, unless there are sentinels or ForceSingleClient is
// set. One address is one server: if it is a node of a cluster, set Config.Cluster. Pools, buffers,
// time-outs, retries, caches and the choice of replicas have no effect on locks.
//
// The error is driver.ErrInvalid if ReplicaOnly is set, because a replica grants no locks, or if
// sentinels and servers have different settings of TLS.
func FromRueidis(o rueidis.ClientOption) (Config, error) {
	c := Config{
		Addrs: slices.Clone(o.InitAddress), DB: o.SelectDB, ClientName: o.ClientName, TLS: o.TLSConfig,
		Cluster: len(o.InitAddress) > 1 && o.Sentinel.MasterSet == "" && !o.ForceSingleClient,
	}
	dial := o.DialCtxFn
	switch {
	case o.ReplicaOnly:
		return Config{}, fmt.Errorf("%w: ReplicaOnly: a replica grants no locks", driver.ErrInvalid)
	case o.Sentinel.MasterSet != "" && o.Sentinel.TLSConfig != o.TLSConfig:
		return Config{}, fmt.Errorf("%w: Sentinel.TLSConfig is not TLSConfig: a store has one for sentinels and servers", driver.ErrInvalid)
	case dial != nil:
	case o.DialFn != nil: // rueidis takes it, too
		dial = func(_ context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			return o.DialFn(addr, d, t)
		}
	}
	if dial != nil {
		c.TLS = nil // the function makes the handshake itself
		c.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dial(ctx, addr, &o.Dialer, o.TLSConfig)
		}
	}
	if o.Username != "" || o.Password != "" {
		c.Credentials = Login(o.Username, o.Password)
	}
	if f := o.AuthCredentialsFn; f != nil {
		c.Credentials = func(context.Context) (user, password string, err error) {
			login, err := f(rueidis.AuthCredentialsContext{Address: anyAddr(strings.Join(o.InitAddress, ","))})
			return login.Username, login.Password, err
		}
	}
	if o.Sentinel.MasterSet != "" {
		c.Sentinel.MasterName = o.Sentinel.MasterSet
		if o.Sentinel.Username != "" || o.Sentinel.Password != "" {
			c.Sentinel.Credentials = Login(o.Sentinel.Username, o.Sentinel.Password)
		}
	}
	return c, nil
}

// anyAddr has the addresses of the client: a Config does not say which server asks for the login.
type anyAddr string

func (anyAddr) Network() string  { return "tcp" }
func (a anyAddr) String() string { return string(a) }
