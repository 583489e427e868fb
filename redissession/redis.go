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

	"github.com/redis/rueidis"
)

// DefaultPrefix begins all keys, except PHP's.
const DefaultPrefix = "padlock:"

// Redis is a connection to Redis, where sessions and values are kept. It is safe for concurrent use.
type Redis struct {
	client rueidis.Client
	own    bool
	config
}

type config struct {
	prefix string
}

// Option configures New, Open and FromURL.
type Option func(*config)

// Prefix makes keys begin with p instead of DefaultPrefix. Two applications on one server need two
// prefixes. On a cluster, a hash tag in the prefix puts all keys into one slot.
func Prefix(p string) Option { return func(c *config) { c.prefix = p } }

// New works with a client of the application. Close leaves that client open. The error is about
// options; no request is sent.
//
// A script that may have been executed is never sent again, even if the client's DisableRetry is
// false.
func New(c rueidis.Client, opts ...Option) (*Redis, error) {
	if c == nil {
		return nil, errors.New("redissession: New: the client is nil")
	}
	r := &Redis{client: c, config: config{prefix: DefaultPrefix}}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("redissession: an Option is nil")
		}
		o(&r.config)
	}
	if err := r.checkPrefix(); err != nil {
		return nil, err
	}
	return r, nil
}

// checkPrefix refuses a prefix that would hide the hash tag that follows it.
func (r *Redis) checkPrefix() error {
	_, tag, open := strings.Cut(r.prefix, "{")
	if open && strings.IndexByte(tag, '}') <= 0 {
		return errors.New("redissession: Prefix: a { in it needs a } after it, with something between them")
	}
	return nil
}

// Open connects to the server, or servers, that o names; Close disconnects.
// A program that has a client uses New.
func Open(ctx context.Context, o rueidis.ClientOption, opts ...Option) (*Redis, error) {
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redissession: %w", err)
	}
	r, err := New(c, opts...)
	if err == nil {
		err = c.Do(ctx, c.B().Ping().Build()).Error()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("redissession: %w", err)
	}
	r.own = true
	return r, nil
}

// parameters are those of rueidis.ParseURL, and prefix.
var parameters = []string{"addr", "client_name", "db", "dial_timeout", "master_set", "prefix", "protocol", "skip_verify", "write_timeout"}

// FromURL is Open for a URL: redis://USER:PASSWORD@HOST:PORT/DB, rediss:// for TLS, or
// unix:///PATH?db=N, as rueidis.ParseURL reads it. addr is another address of a cluster, master_set
// the name of the primary at Sentinel, prefix is Prefix. An unknown parameter is an error. No error
// repeats a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Redis, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("redissession: the parameters of the URL cannot be read")
	}
	for name, values := range q {
		if !slices.Contains(parameters, name) || name != "addr" && len(values) > 1 {
			return nil, fmt.Errorf("redissession: the URL has an unknown parameter, or has it twice: %q; there are %s", name, strings.Join(parameters, ", "))
		}
	}
	o, err := rueidis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("redissession: %w", err)
	}
	if q.Has("prefix") {
		opts = append([]Option{Prefix(q.Get("prefix"))}, opts...)
	}
	return Open(ctx, o, opts...)
}

// Close closes the connection if Open or FromURL made it.
func (r *Redis) Close() {
	if r.own {
		r.client.Close()
	}
}

//go:embed lua/*.lua
var sources embed.FS

func script(name string) *rueidis.Lua {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // only a misspelt name, which any test finds
	}
	return rueidis.NewLuaScript(string(text))
}

// unsent reports whether an error that is no reply says that nothing was sent.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot)
}

// refusals are replies that say that nothing was done. The server looks for
// memory, role and disk before the first write of a script.
var refusals = []string{
	"OOM", "READONLY", "LOADING", "NOAUTH", "WRONGPASS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"CROSSSLOT", "BUSY", "MISCONF", "NOREPLICAS", "NOPROTO",
}

// refused reports whether reply says that nothing was done.
func refused(reply *rueidis.RedisError) bool {
	code, _, _ := strings.Cut(reply.Error(), " ")
	return slices.Contains(refusals, code) || strings.Contains(reply.Error(), "unknown command") || strings.Contains(reply.Error(), "max number of clients")
}

// public is an error's text without arguments of commands: an id may be among
// them.
func public(err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		text, _, _ := strings.Cut(reply.Error(), ", with args")
		return errors.New("redis: " + text)
	}
	return fmt.Errorf("redis: %w", err)
}

// millis is a lifetime as scripts take it; 0 is for ever.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((max(d, 0)+time.Millisecond-1)/time.Millisecond), 10)
}

// lifetime converts the reply of PTTL for a key that exists.
func lifetime(ms int64) time.Duration {
	if ms < 0 {
		return 0
	}
	return max(1, time.Duration(ms)*time.Millisecond) // in its last millisecond it says 0
}

func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}
