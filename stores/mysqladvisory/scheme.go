package mysqladvisory

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// schemes are the schemes of the store's URLs, and of Symfony's DSNs. The usual one comes first.
var schemes = []string{"mysql+advisory", "mysql2+advisory", "mariadb+advisory"}

const example = "mysql+advisory://localhost/shop"

// Scheme describes the URLs of named locks for package open. [FromURL] lists these URLs.
func (o Opener) Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       schemes,
		Help:        "named locks (GET_LOCK) of a MySQL or MariaDB server, shared with PHP, which end with the connection",
		Example:     example,
		Guarantees:  usualPromises,
		Open:        storeurl.Opens(o.fromURL, Lazy(), lenient),
		Symfony:     schemes,
		FromSymfony: fromSymfony,
		Instead:     foreignDSN,
		Servers:     o.Servers,
		Schema:      o.schema,
	}
}

// usualPromises returns what a store without options promises.
func usualPromises() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

// fromURL is FromURL with the driver of o.
func (o Opener) fromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	return FromURL(ctx, u, o, opts...)
}

// lenient is for a store that is opened only to be examined.
func lenient(c *config) { c.Lenient = true }

// schema returns the statements that create the table of fences.
func (o Opener) schema(u *url.URL) ([]string, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	c, err := t.config()
	if err != nil || c.NoFences {
		return nil, err
	}
	if c.schema == "" {
		c.schema = strings.TrimPrefix(u.Path, "/")
	}
	return Schema(c.schema)
}

// foreignDSN recognises the DSNs of PHP's PDO.
func foreignDSN(text string) string {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || strings.HasPrefix(rest, "//") || !slices.Contains(schemes, scheme) {
		return ""
	}
	return schemes[0] + "://USER:PASSWORD@HOST/DATABASE"
}

func fromSymfony(dsn string) (*url.URL, error) {
	return storeurl.FromDatabaseDSN(schemes[0], dsn, "unix_socket")
}
