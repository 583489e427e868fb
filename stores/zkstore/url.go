package zkstore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// FromURL opens the store that a URL names:
//
//	zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/ROOT]
//
// It also takes the scheme zk. The default port is 2181, and the default root is /padlock. USER
// and PASSWORD log in with the digest scheme; see Config. The URL may have these parameters:
//
//	session-timeout=DURATION  SessionTimeout
//	fences=no                 NoFences
//	layout=symfony            SymfonyLayout; the default root is / then
//	lazy=yes                  Lazy
//	password-file=FILE        the password
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	c, own, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, append(own, opts...)...)
}

var form = storeurl.Form[Option]{
	Schemes: schemes, Example: example, Hosts: true,
	Params: map[string]storeurl.Param[Option]{
		"layout":          storeurl.OneOf("queue", "symfony", SymfonyLayout()),
		"fences":          storeurl.IfNo(NoFences()),
		"lazy":            storeurl.IfYes(Lazy()),
		"session-timeout": storeurl.Duration(SessionTimeout),
		"password-file":   storeurl.PasswordFile[Option],
	},
}

const defaultPort = "2181"

// parseURL reads a URL. It opens no connection.
func parseURL(u *url.URL) (c Config, opts []Option, err error) {
	r, err := form.Read(u)
	if err != nil {
		return c, nil, err
	}
	if c.Servers, err = storeurl.Addresses(u.Host, defaultPort); err != nil {
		return c, nil, err
	}
	if c.Credentials, err = r.Credentials(); err == nil && c.Credentials != nil {
		err = checkUser(u.User.Username())
	}
	if err != nil {
		return c, nil, err
	}
	if root := strings.TrimSuffix(u.Path, "/"); root != "" {
		if checkRoot(root) != nil || strings.Contains(root, "@") { // the path may hold a part of a password
			return c, nil, storekit.Invalidf("the root in the URL: it is a path such as /shop/locks, of letters, digits and the characters - _ . : + , = ~, and not below /zookeeper; in a password, / is written %%2F")
		}
		r.Add(Root(root))
	}
	return c, r.Opts, nil
}
