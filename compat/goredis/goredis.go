// Package goredis opens package redisstore with the settings of a go-redis client.
//
// Use it if your program has such a client, or its options. If you write the address down anyway, use
// redisstore.Open instead.
//
//	store, err := goredis.Open(ctx, client)
//
// The store makes connections of its own: the requests of a lock must reach the server in the order in
// which they were sent, and none may be sent twice, but a go-redis client chooses a connection for each
// request and repeats failed ones. So the client's pool, time-outs, retries, hooks and cache do not act
// on locks. Reads from replicas (ReadOnly, RouteByLatency, RouteRandomly) do not either: a lock asks the
// primary.
//
// The address, the dialer, TLS, the login, the database and the name of the connections are taken over.
// What would change who is asked, and cannot be taken over, is driver.ErrInvalid, and the error names
// it. Such are OnConnect, Limiter, ClusterSlots, NewClient, ReplicaOnly, and a *redis.Ring.
//
// Everything in it is safe for concurrent use.
package goredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"reflect"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// Open is redisstore.Open with FromClient. The store and the client do not depend on each other: either
// may be closed first.
func Open(ctx context.Context, client redis.UniversalClient, opts ...redisstore.Option) (*redisstore.Store, error) {
	c, err := FromClient(client)
	if err != nil {
		return nil, err
	}
	return redisstore.Open(ctx, c, opts...)
}

// FromClient returns the settings of a *redis.Client or a *redis.ClusterClient. A client that
// redis.NewFailoverClient made does not know its sentinels: use FromFailover with its options.
func FromClient(client redis.UniversalClient) (redisstore.Config, error) {
	switch c := client.(type) {
	case *redis.Client:
		return FromOptions(c.Options())
	case *redis.ClusterClient:
		return FromCluster(c.Options())
	}
	return redisstore.Config{}, invalid("the client is a %T, not a *redis.Client or *redis.ClusterClient", client)
}

// FromOptions returns the settings of a client of one server.
func FromOptions(o *redis.Options) (redisstore.Config, error) {
	if o.Addr == "FailoverClient" { // as redis.NewFailoverClient calls it
		return redisstore.Config{}, invalid("the client was made by NewFailoverClient and does not know its sentinels; use FromFailover with its options")
	}
	c := settings{
		addrs: []string{o.Addr}, network: o.Network, db: o.DB, name: o.ClientName, dial: o.Dialer, tls: o.TLSConfig,
		login: login{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider},
	}
	c.cannot("OnConnect", o.OnConnect != nil)
	c.cannot("Limiter", o.Limiter != nil)
	return c.config()
}

// FromCluster returns the settings of a client of a cluster.
func FromCluster(o *redis.ClusterOptions) (redisstore.Config, error) {
	c := settings{
		addrs: o.Addrs, cluster: true, name: o.ClientName, dial: o.Dialer, tls: o.TLSConfig,
		login: login{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider},
	}
	c.cannot("OnConnect", o.OnConnect != nil)
	c.cannot("ClusterSlots", o.ClusterSlots != nil)
	// A client that exists has its default in the options.
	c.cannot("NewClient", o.NewClient != nil && reflect.ValueOf(o.NewClient).Pointer() != reflect.ValueOf(redis.NewClient).Pointer())
	return c.config()
}

// FromFailover returns the settings of a client that asks sentinels for the primary.
func FromFailover(o *redis.FailoverOptions) (redisstore.Config, error) {
	c := settings{
		addrs: o.SentinelAddrs, master: o.MasterName, sentinel: login{user: o.SentinelUsername, password: o.SentinelPassword},
		db: o.DB, name: o.ClientName, dial: o.Dialer, tls: o.TLSConfig,
		login: login{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider},
	}
	c.cannot("OnConnect", o.OnConnect != nil)
	c.cannot("ReplicaOnly", o.ReplicaOnly)
	return c.config()
}

// FromUniversal returns the settings of the client that redis.NewUniversalClient would make.
func FromUniversal(o *redis.UniversalOptions) (redisstore.Config, error) {
	switch {
	case o.MasterName != "":
		return FromFailover(o.Failover())
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return FromCluster(o.Cluster())
	}
	return FromOptions(o.Simple())
}

// settings has what the options of all kinds of clients have.
type settings struct {
	addrs             []string
	network           string
	cluster           bool
	master            string
	login, sentinel   login
	db                int
	name              string
	dial              func(ctx context.Context, network, addr string) (net.Conn, error)
	tls               *tls.Config
	cannotBeTakenOver []string
}

func (s *settings) cannot(option string, isSet bool) {
	if isSet {
		s.cannotBeTakenOver = append(s.cannotBeTakenOver, option)
	}
}

func (s *settings) config() (redisstore.Config, error) {
	if len(s.cannotBeTakenOver) > 0 {
		return redisstore.Config{}, invalid("%s cannot be taken over by a store", strings.Join(s.cannotBeTakenOver, " and "))
	}
	c := redisstore.Config{
		Addrs: s.addrs, Cluster: s.cluster, DB: s.db, ClientName: s.name, TLS: s.tls, Dial: s.dial, Credentials: s.login.credentials(),
	}
	if s.master != "" {
		c.Sentinel = redisstore.Sentinel{MasterName: s.master, Credentials: s.sentinel.credentials()}
	}
	if s.dial != nil {
		c.TLS = nil // as in go-redis, a dialer makes the handshake itself
	}
	if s.network == "unix" || len(s.addrs) == 1 && strings.HasPrefix(s.addrs[0], "/") {
		c.Socket, c.Addrs = s.addrs[0], nil
	}
	return c, nil
}

// A login has what go-redis logs in with. The last one that is there counts.
type login struct {
	user, password string
	ask            func() (user, password string)
	askContext     func(context.Context) (user, password string, err error)
	stream         auth.StreamingCredentialsProvider
}

// credentials returns nil if nobody logs in.
func (l login) credentials() func(context.Context) (user, password string, err error) {
	switch {
	case l.stream != nil:
		return func(context.Context) (user, password string, err error) {
			now, unsubscribe, err := l.stream.Subscribe(&listener{})
			if err != nil {
				return "", "", err
			}
			user, password = now.BasicAuth()
			return user, password, unsubscribe()
		}
	case l.askContext != nil:
		return l.askContext
	case l.ask != nil:
		return func(context.Context) (user, password string, err error) {
			user, password = l.ask()
			return user, password, nil
		}
	case l.user != "" || l.password != "":
		return redisstore.Login(l.user, l.password)
	}
	return nil
}

// A listener wants nothing: each new connection asks for the credentials of that time.
type listener struct{ _ byte }

func (*listener) OnNext(auth.Credentials) {}
func (*listener) OnError(error)           {}

func invalid(format string, args ...any) error {
	return fmt.Errorf("goredis: %w: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
