package etcdstore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// FromURL opens the store that a URL names:
//
//	etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]
//	etcds://…                     the same with TLS
//
// A host without a port has port 2379. If any host has a port, the last host also needs a port.
// PREFIX, or the parameter prefix, is the beginning of all keys. The slash before PREFIX is not a
// part of it.
//
// The URL may have these parameters:
//
//	prefix=TEXT          Prefix; only for a URL without a path
//	lazy=yes             Lazy
//	ca=FILE              the authority that signed the certificate of the server
//	cert=FILE, key=FILE  the certificate of this client, and its key
//	tls=yes              TLS, as with the scheme etcds
//	server-name=HOST     the name in the certificate of the server, instead of the address
//	password-file=FILE   the password; read again if the server does not accept the old one
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	t, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	if t.tls {
		if t.server.TLS, err = t.read.TLS(); err != nil {
			return nil, err
		}
	}
	return Open(ctx, t.server, append(t.read.Opts, opts...)...)
}

// schemes are the schemes of the store's URLs.
var schemes = []string{"etcd", "etcds"}

const (
	example     = "etcd://localhost:2379/shop/"
	defaultPort = "2379"
)

// A target is what parseURL has read from a URL.
type target struct {
	read   *storeurl.Reading[Option]
	server Config
	tls    bool
}

var form = storeurl.Form[Option]{
	Schemes: schemes, Example: example, Hosts: true,
	Params: map[string]storeurl.Param[Option]{
		"ca": storeurl.Keep[Option], "cert": storeurl.Keep[Option], "key": storeurl.Keep[Option],
		"server-name":   storeurl.Keep[Option],
		"tls":           storeurl.Yes[Option],
		"prefix":        storeurl.Keep[Option],
		"lazy":          storeurl.IfYes(Lazy()),
		"password-file": storeurl.PasswordFile[Option],
	},
}

// parseURL reads a URL. It opens no connection and no file.
func parseURL(u *url.URL) (*target, error) {
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	t := &target{read: r, tls: u.Scheme == "etcds" || r.Values["tls"] == "yes"}
	if t.server.Endpoints, err = storeurl.Addresses(u.Host, defaultPort); err != nil {
		return nil, err
	}
	if t.server.Credentials, err = r.Credentials(); err != nil {
		return nil, err
	}
	prefix := strings.TrimPrefix(u.Path, "/")
	switch text := r.Values["prefix"]; {
	case text != "" && prefix != "":
		return nil, storekit.Invalidf("prefix: it is in the path and in a parameter; leave one of them out")
	case u.Scheme == "etcds" && r.Values["tls"] == "no":
		return nil, storekit.Invalidf("tls: etcds: means TLS; write etcd: for a connection without")
	default:
		prefix += text
	}
	if prefix != "" {
		r.Add(Prefix(prefix))
	}
	return t, r.CheckTLS(t.tls, "etcds:")
}

// Scheme describes the URLs of etcd for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:      schemes,
		Help:       "keys with leases in an etcd cluster",
		Example:    example,
		Guarantees: func() driver.Guarantees { return guarantees },
		Open:       storeurl.Opens(FromURL, Lazy()),
		Instead:    correctURL,
		Servers:    servers,
	}
}

// correctURL recognises the URLs with which other programs name etcd, and returns the form to use
// instead.
func correctURL(text string) string {
	for _, scheme := range []string{"etcd+http", "etcdv3", "etcd3", "etcd+https"} {
		if strings.HasPrefix(text, scheme+":") {
			return "etcd://HOST:2379, or etcds://HOST:2379 for TLS"
		}
	}
	return ""
}

func servers(u *url.URL) (addresses []string, encrypted bool) {
	t, err := parseURL(u)
	if err != nil {
		return nil, false
	}
	return t.server.Endpoints, t.tls
}
