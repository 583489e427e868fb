package redisstore

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/internal/redisconn"
)

// FromURL opens the store that a URL names:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://…                                           redis:// with TLS
//	redis+unix://[USER:PASSWORD@]/PATH, redis:///PATH    a unix socket
//	redis+sentinel://[USER:PASSWORD@]HOST,HOST/SET[/DB]  the primary that sentinels know as "SET"
//	redis+cluster://[USER:PASSWORD@]HOST,HOST
//	rediss+sentinel://…, rediss+cluster://…              sentinels or a cluster with TLS
//
// If a URL has several hosts, write no port, a port after the last host, or a port after each host.
// The parameter node can add any other host and port.
//
// The query may have the parameters
//
//	layout=string        PlainStrings; set is the default
//	fences=no            NoFences
//	fence-keep=DURATION  FenceKeep
//	prefix=TEXT          Prefix
//	foreign=yes          Foreign
//	only-padlock=yes     OnlyPadlock
//	max-ttl=DURATION     MaxTTL
//	restart-guard=known|strict|off   RestartGuard
//	run-ids=DIR          RememberRunIDs(RunIDDir(DIR))
//	eviction=allow       AllowEviction
//	durable=yes          Durable
//	lazy=yes             Lazy
//	db=N                 the database, if the path does not name it
//	node=HOST:PORT       another address; may be given several times
//	client-name=TEXT     the name of the connections in CLIENT LIST
//	tls=yes              use TLS, if the scheme does not say so
//	ca=FILE, cert=FILE, key=FILE, server-name=HOST, tls-verify=no    settings of TLS
//	password-file=FILE   the password, read again for each connection
//	sentinel-user=TEXT, sentinel-password=TEXT, sentinel-password-file=FILE
//	                     the login at the sentinels themselves
//
// Any other parameter is driver.ErrInvalid. opts are applied after the parameters of the URL. ctx
// bounds the opening only. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	server, own, err := readURL(u)
	if err != nil {
		return nil, err
	}
	return open(ctx, server, append(own, opts...))
}

func readURL(u *url.URL) (*redisconn.Server, []Option, error) {
	var p parameters
	server, err := redisconn.ReadURL(u, p.table())
	return server, p.opts, err
}

// parameters are the store's own parameters of a URL.
type parameters struct {
	opts []Option
}

func (p *parameters) add(o Option) { p.opts = append(p.opts, o) }

func (p *parameters) when(r *redisconn.Reader, name, value string, o Option) {
	if r.Yes(name, value) {
		p.add(o)
	}
}

func (p *parameters) table() map[string]redisconn.Parameter {
	return map[string]redisconn.Parameter{
		"layout": func(r *redisconn.Reader, name, v string) {
			if r.OneOf(name, v, "set", "string") == "string" {
				p.add(PlainStrings())
			}
		},
		"fences": func(r *redisconn.Reader, name, v string) {
			if !r.Yes(name, v) {
				p.add(NoFences())
			}
		},
		"foreign":      func(r *redisconn.Reader, name, v string) { p.when(r, name, v, Foreign()) },
		"prefix":       func(r *redisconn.Reader, _, v string) { p.add(Prefix(v)) },
		"only-padlock": func(r *redisconn.Reader, name, v string) { p.when(r, name, v, OnlyPadlock()) },
		"durable":      func(r *redisconn.Reader, name, v string) { p.when(r, name, v, Durable()) },
		"lazy":         func(r *redisconn.Reader, name, v string) { p.when(r, name, v, Lazy()) },
		"fence-keep":   func(r *redisconn.Reader, name, v string) { p.add(FenceKeep(r.Duration(name, v))) },
		"max-ttl":      func(r *redisconn.Reader, name, v string) { p.add(MaxTTL(r.Duration(name, v))) },
		"eviction": func(r *redisconn.Reader, name, v string) {
			if r.OneOf(name, v, "allow", "refuse") == "allow" {
				p.add(AllowEviction())
			}
		},
		"restart-guard": func(r *redisconn.Reader, name, v string) {
			guards := map[string]Guard{"known": GuardKnown, "strict": GuardStrict, "off": GuardOff}
			p.add(RestartGuard(guards[r.OneOf(name, v, "known", "strict", "off")]))
		},
		"run-ids": func(r *redisconn.Reader, _, v string) { p.add(RememberRunIDs(RunIDDir(v))) },
	}
}
