package redisstore

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit/storeurl"
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
	server, own, err := redisconn.ReadURL(u, params)
	if err != nil {
		return nil, err
	}
	return open(ctx, server, append(own, opts...))
}

// params are the store's own parameters of a URL.
var params = map[string]storeurl.Param[Option]{
	"layout":        storeurl.OneOf("set", "string", PlainStrings()),
	"fences":        storeurl.IfNo(NoFences()),
	"fence-keep":    storeurl.Duration(FenceKeep),
	"prefix":        storeurl.Text(Prefix),
	"foreign":       storeurl.IfYes(Foreign()),
	"only-padlock":  storeurl.IfYes(OnlyPadlock()),
	"max-ttl":       storeurl.Duration(MaxTTL),
	"restart-guard": readGuard,
	"run-ids":       storeurl.Text(func(dir string) Option { return RememberRunIDs(RunIDDir(dir)) }),
	"eviction":      storeurl.OneOf("refuse", "allow", AllowEviction()),
	"durable":       storeurl.IfYes(Durable()),
	"lazy":          storeurl.IfYes(Lazy()),
}

func readGuard(r *storeurl.Reading[Option], name, value string) error {
	guard, ok := map[string]Guard{"known": GuardKnown, "strict": GuardStrict, "off": GuardOff}[value]
	if !ok {
		return storeurl.Invalid("%s: it is known or strict or off", name)
	}
	r.Add(RestartGuard(guard))
	return nil
}
