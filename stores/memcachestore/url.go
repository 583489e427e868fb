package memcachestore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

const (
	scheme  = "memcached"
	example = "memcached://localhost:11211"
	port    = "11211"
)

// FromURL opens the store that a URL names:
//
//	memcached://[USER:PASSWORD@]HOST[:PORT]
//	memcached:///PATH                        a unix socket
//
// The query may have the parameters
//
//	layout=symfony       SymfonyLayout; the default is layout=hash
//	prefix=TEXT          Prefix
//	lazy=yes             Lazy
//	password-file=FILE   the password, read again for each connection
//	tls=yes              use TLS
//	ca=FILE, server-name=HOST    settings of TLS
//
// Any other parameter, or a second host, is driver.ErrInvalid. opts are applied after the
// parameters of the URL. ctx bounds the opening only. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	c, own, err := readURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, append(own, opts...)...)
}

var form = storeurl.Form[Option]{
	Schemes: []string{scheme}, Example: example,
	Params: map[string]storeurl.Param[Option]{
		"layout":        storeurl.OneOf("hash", "symfony", SymfonyLayout()),
		"prefix":        storeurl.Text(Prefix),
		"lazy":          storeurl.IfYes(Lazy()),
		"tls":           storeurl.Yes[Option],
		"ca":            storeurl.Keep[Option],
		"server-name":   storeurl.Keep[Option],
		"password-file": storeurl.PasswordFile[Option],
	},
}

func readURL(u *url.URL) (c Config, opts []Option, err error) {
	r, err := form.Read(u)
	switch {
	case err != nil:
		return c, nil, err
	case u.Host != "" && strings.Trim(u.Path, "/") != "":
		return c, nil, storekit.Invalidf("the URL has the form %s; in a password, # is written %%23", example)
	case u.Hostname() == "" && u.Path == "":
		return c, nil, storekit.Invalidf("the URL names no host: write %s", example)
	case strings.Contains(u.Host, ","):
		return c, nil, storekit.Invalidf(oneServer)
	}
	if u.Host == "" {
		c.Socket = u.Path
	} else if c.Addr, err = storeurl.Address(u.Host, port); err != nil {
		return c, nil, err
	}
	password, _ := u.User.Password()
	if err := checkLogin(u.User.Username(), password); err != nil {
		return c, nil, err
	}
	if c.Credentials, err = r.Credentials(); err != nil {
		return c, nil, err
	}
	tls := r.Values["tls"] == "yes"
	if err = r.CheckTLS(tls, "tls=yes"); err == nil && tls {
		c.TLS, err = r.TLS()
	}
	return c, r.Opts, err
}
