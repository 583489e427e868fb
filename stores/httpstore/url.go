package httpstore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

const (
	encrypted = "padlock+https"
	plain     = "padlock+http"
	example   = "padlock+https://locks.example.com/"
)

// FromURL opens the store that a URL names:
//
//	padlock+https://HOST[:PORT][,HOST[:PORT]…]/[PATH]
//	padlock+http://…   without encryption, for servers on this machine
//
// The query may have the parameters
//
//	token-file=FILE      a file with the token, read again for each request
//	plaintext=yes        Plaintext
//	lazy=yes             Lazy
//	ca=FILE              trust servers with a certificate of this authority only
//	cert=FILE, key=FILE  show this certificate to the server
//	server-name=HOST     the host in the certificate of the server
//
// Any other parameter, or a user in the URL, is driver.ErrInvalid. opts are applied after the
// parameters of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	c, own, err := readURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, append(own, opts...)...)
}

var form = storeurl.Form[Option]{
	Schemes: []string{encrypted, plain}, Example: example, Hosts: true,
	Params: map[string]storeurl.Param[Option]{
		"token-file":  storeurl.PasswordFile[Option],
		"plaintext":   storeurl.IfYes(Plaintext()),
		"lazy":        storeurl.IfYes(Lazy()),
		"ca":          storeurl.Keep[Option],
		"cert":        storeurl.Keep[Option],
		"key":         storeurl.Keep[Option],
		"server-name": storeurl.Keep[Option],
	},
}

func readURL(u *url.URL) (c Config, opts []Option, err error) {
	if u.User != nil {
		return c, nil, storekit.Invalidf("a password or a token does not stand in the URL: write token-file=FILE")
	}
	r, err := form.Read(u)
	if err != nil {
		return c, nil, err
	}
	scheme := strings.TrimPrefix(u.Scheme, "padlock+")
	addresses, err := storeurl.Addresses(u.Host, ports[scheme])
	if err != nil {
		return c, nil, err
	}
	for _, address := range addresses {
		base := url.URL{Scheme: scheme, Host: address, Path: "/" + strings.Trim(u.Path, "/")}
		c.Servers = append(c.Servers, base.String())
	}
	c.Token = r.Password
	if err = r.CheckTLS(u.Scheme == encrypted, encrypted+"://"); err == nil && u.Scheme == encrypted {
		c.TLS, err = r.TLS()
	}
	return c, r.Opts, err
}

var ports = map[string]string{"https": "443", "http": "80"}

// Scheme describes the URLs of this store for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names: []string{encrypted, plain}, Help: "a server of padlock serve --api", Example: example,
		Guarantees: least, Open: storeurl.Opens(FromURL, Lazy(), examined),
		Servers: servers,
	}
}

func servers(u *url.URL) (addresses []string, isEncrypted bool) {
	addresses, err := storeurl.Addresses(u.Host, ports[strings.TrimPrefix(u.Scheme, "padlock+")])
	if err != nil {
		addresses = nil
	}
	return addresses, u.Scheme == encrypted
}
