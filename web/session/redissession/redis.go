package redissession

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/redis/rueidis"
)

// DefaultPrefix is the beginning of all keys, except PHP's.
const DefaultPrefix = "padlock:"

// Redis is a connection to Redis, where sessions and values are kept. It is safe for concurrent
// use.
type Redis struct {
	client rueidis.Client
	server *redisconn.Server
	config
}

type config struct {
	prefix string
}

// Option configures Open and FromURL.
type Option func(*config)

// Prefix makes keys begin with p. The default is DefaultPrefix. Two applications on one server need
// two prefixes. On a cluster, a hash tag in the prefix puts all keys into one slot. A { in the
// prefix needs a } after it, with something between them; otherwise the error is
// padlock.ErrInvalid.
func Prefix(p string) Option { return func(c *config) { c.prefix = p } }

// Open connects to the server or servers of c. It makes connections of its own and shares none with
// a lock store that has the same Config. Config.Credentials is called for every new connection, so
// credentials can change while Redis is open. Config.Cluster must be set for a cluster.
//
// Open returns padlock.ErrInvalid if settings are wrong or contradict each other, and
// sessionstore.ErrUnavailable if the servers refuse the login or cannot be reached before ctx ends.
// No error contains a password.
func Open(ctx context.Context, c redisstore.Config, opts ...Option) (*Redis, error) {
	server, err := redisconn.New(settings(c))
	if err != nil {
		return nil, fmt.Errorf("redissession: %w", err)
	}
	return open(ctx, server, opts)
}

// FromURL opens the Redis that a URL names. The URLs are those of redisstore.FromURL, with its
// parameters for connections, TLS and logins: db, node, client-name, tls, ca, cert, key,
// server-name, tls-verify, password-file, sentinel-user, sentinel-password, sentinel-password-file.
// The parameter prefix sets Prefix. Any other parameter causes padlock.ErrInvalid. opts are applied
// after the parameters of the URL. FromURL returns the same errors as Open.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Redis, error) {
	server, own, err := redisconn.ReadURL(u, map[string]storeurl.Param[Option]{"prefix": storeurl.Text(Prefix)})
	if err != nil {
		return nil, fmt.Errorf("redissession: %w", err)
	}
	return open(ctx, server, append(own, opts...))
}

// settings returns all fields of c.
func settings(c redisstore.Config) redisconn.Config {
	return redisconn.Config{
		Addrs: c.Addrs, Socket: c.Socket, Cluster: c.Cluster,
		Sentinel:    redisconn.Sentinel{MasterName: c.Sentinel.MasterName, Credentials: c.Sentinel.Credentials},
		Credentials: c.Credentials, DB: c.DB, ClientName: c.ClientName, TLS: c.TLS, Dial: c.Dial,
	}
}

func open(ctx context.Context, server *redisconn.Server, opts []Option) (*Redis, error) {
	r := &Redis{server: server, config: config{prefix: DefaultPrefix}}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("redissession: %w: an Option is nil", padlock.ErrInvalid)
		}
		o(&r.config)
	}
	if err := r.checkPrefix(); err != nil {
		return nil, err
	}
	client, err := connect(ctx, clientOption(server))
	if err != nil {
		return nil, unopened(err)
	}
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, unopened(err)
	}
	r.client = client
	return r, nil
}

// connect makes a client. rueidis.NewClient takes no context, so it runs in a goroutine. If ctx
// ends first, connect returns an error. The client is then closed when it is ready.
func connect(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	type outcome struct {
		client rueidis.Client
		err    error
	}
	made := make(chan outcome, 1)
	go func() {
		client, err := rueidis.NewClient(o)
		if err != nil && client != nil {
			client.Close()
		}
		made <- outcome{client, err}
	}()
	select {
	case o := <-made:
		return o.client, o.err
	case <-ctx.Done():
		go func() {
			if o := <-made; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// checkPrefix refuses a prefix that would hide the hash tag that follows it.
func (r *Redis) checkPrefix() error {
	_, tag, open := strings.Cut(r.prefix, "{")
	if open && strings.IndexByte(tag, '}') <= 0 {
		return fmt.Errorf("redissession: %w: Prefix: a { in it needs a } after it, with something between them", padlock.ErrInvalid)
	}
	return nil
}

func unopened(err error) error {
	return fmt.Errorf("redissession: %w: %w", sessionstore.ErrUnavailable, public(err))
}

// clientOption makes the client's settings. The client may retry a PING, but it never repeats a
// script that the server may have executed. AlwaysPipelining makes the client notice at once that a
// connection has ended (Server.LeaveRefusing).
func clientOption(s *redisconn.Server) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: s.Addresses(), SelectDB: s.DB, ClientName: s.ClientName, TLSConfig: s.TLS,
		ForceSingleClient: s.Single(), DisableCache: true, AlwaysPipelining: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:        net.Dialer{Timeout: redisconn.DialTimeout, KeepAlive: rueidis.DefaultTCPKeepAlive},
		DialCtxFn:     s.Dial,
		AuthCredentialsFn: func(conn rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password, err := redisconn.Login(conn.Address)
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		},
	}
	if s.Sentinel.MasterName != "" {
		o.Sentinel = rueidis.SentinelOption{MasterSet: s.Sentinel.MasterName, Dialer: redisconn.ToSentinel(o.Dialer), TLSConfig: s.TLS}
	}
	return o
}

// Close closes the connection. The error is always nil.
func (r *Redis) Close() error {
	r.client.Close()
	return nil
}

//go:embed lua/*.lua
var sources embed.FS

func script(name string) *rueidis.Lua {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // only for a misspelt name, which any test finds
	}
	return rueidis.NewLuaScript(string(text))
}

// unsent reports whether err means that the request was not sent. The caller must have checked that
// err is not a reply of the server.
func unsent(err error) bool {
	var dial *redisconn.DialError
	return errors.As(err, &dial) || errors.Is(err, rueidis.ErrNoSlot)
}

// refusals are the codes of replies which prove that nothing was done. The server checks memory,
// role and disk before the first write of a script.
var refusals = []string{
	"OOM", "READONLY", "LOADING", "NOAUTH", "WRONGPASS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"CROSSSLOT", "BUSY", "MISCONF", "NOREPLICAS", "NOPROTO",
}

// refused reports whether reply says that nothing was done.
func refused(reply *rueidis.RedisError) bool {
	code, _, _ := strings.Cut(reply.Error(), " ")
	return slices.Contains(refusals, code) || redisconn.WrongRole(reply.Error()) || strings.Contains(reply.Error(), "unknown command") || strings.Contains(reply.Error(), "max number of clients")
}

// public removes the arguments of commands from an error's text, since they may contain an id or a
// password.
func public(err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		text, _, _ := strings.Cut(reply.Error(), ", with args")
		if redisconn.WrongRole(text) {
			text = "it refused because it is a replica; the next call connects anew, since a failover may have moved the primary: " + text
		}
		return errors.New("redis: " + text)
	}
	return fmt.Errorf("redis: %w", err)
}

// millis formats a lifetime for scripts, rounded up to milliseconds. 0 means for ever.
func millis(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	const longest = 1<<63 - 1
	return strconv.FormatInt(min((d-1).Milliseconds()+1, time.Duration(longest).Milliseconds()), 10)
}

// lifetime converts the reply of PTTL for a key that exists.
func lifetime(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return max(1, time.Duration(ms)*time.Millisecond) // PTTL is 0 in the last millisecond
}

func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}
