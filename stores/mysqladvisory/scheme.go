package mysqladvisory

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// schemes are the schemes of the store's URLs, and of Symfony's DSNs. The usual one comes first.
var schemes = []string{"mysql+advisory", "mysql2+advisory", "mariadb+advisory"}

const example = "mysql+advisory://localhost/shop"

// Scheme describes the URLs of named locks for package open. [FromURL] lists these URLs.
func (o Opener) Scheme() driver.Scheme {
	return driver.Scheme{
		Names:       schemes,
		Help:        "named locks (GET_LOCK) of a MySQL or MariaDB server, which end with the connection",
		Example:     example,
		Guarantees:  usualPromises,
		Open:        o.openURL,
		Symfony:     schemes,
		FromSymfony: fromSymfony,
		Instead:     foreignDSN,
		Servers:     o.Servers,
		At:          o.At,
		Schema:      o.schema,
		Upgrade:     o.upgrade,
	}
}

// usualPromises returns what a store without options promises.
func usualPromises() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

func (o Opener) openURL(ctx context.Context, u *url.URL, opening driver.Opening) (driver.Store, error) {
	var opts []Option
	if opening.Lazy && !u.Query().Has("lazy") || opening.Lenient {
		opts = append(opts, Lazy())
	}
	if opening.Lenient {
		opts = append(opts, func(c *config) { c.lenient = true })
	}
	s, err := FromURL(ctx, u, o, opts...)
	if err != nil {
		return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
	}
	return s, nil
}

// schema returns the statements that create the table of fences.
func (o Opener) schema(u *url.URL) ([]string, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	c, err := t.config()
	if err != nil || c.noFences {
		return nil, err
	}
	if c.schema == "" {
		c.schema = strings.TrimPrefix(u.Path, "/")
	}
	return Schema(c.schema)
}

// upgrade creates the table if it is missing, and writes the version if the table has none.
func (o Opener) upgrade(ctx context.Context, u *url.URL) (from, to int, err error) {
	s, err := FromURL(ctx, u, o, Lazy())
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	if s.cfg.noFences {
		return schemaVersion, schemaVersion, nil
	}
	from, err = calls.Do(ctx, &s.calls, func() (int, error) {
		database := cmp.Or(s.cfg.schema, strings.TrimPrefix(u.Path, "/"))
		table, err := fenceTable(database)
		if err != nil {
			return 0, err
		}
		c, err := s.pool.anyConn()
		if err != nil {
			return 0, err
		}
		from, err := versionOf(c, &statements{table})
		if err != nil {
			return from, err
		}
		return from, makeTable(c, database)
	})
	return from, schemaVersion, err
}

// foreignDSN recognises the DSNs of PHP's PDO.
func foreignDSN(text string) string {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || strings.HasPrefix(rest, "//") || !slices.Contains(schemes, scheme) {
		return ""
	}
	return schemes[0] + "://USER:PASSWORD@HOST/DATABASE"
}

// fromSymfony translates a DSN of PHP's Symfony. Such a DSN is mysql+advisory:host=…;dbname=… for
// PDO, or a URL for Doctrine. The errors contain nothing of the DSN.
func fromSymfony(dsn string) (*url.URL, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	if strings.HasPrefix(rest, "//") {
		u, err := url.Parse(schemes[0] + ":" + rest)
		if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // a part of a password
			return nil, invalid("the DSN cannot be read; in a password, / is written %%2F, ? %%3F and # %%23")
		}
		query := u.Query()
		for _, ignored := range []string{"serverVersion", "charset"} {
			query.Del(ignored)
		}
		if socket := query.Get("unix_socket"); socket != "" {
			u.Host = ""
			query.Set("socket", socket)
		}
		query.Del("unix_socket")
		return inLayout(u, query)
	}
	parts, query := map[string]string{}, url.Values{}
	for part := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok && name != "":
			return nil, invalid("the DSN has a part that is not NAME=VALUE")
		case slices.Contains([]string{"host", "port", "dbname", "user", "password", "unix_socket", "charset"}, name):
			parts[name] = value
		case name != "":
			query.Set(name, value)
		}
	}
	u := &url.URL{Scheme: schemes[0], Path: "/" + parts["dbname"]}
	switch {
	case parts["unix_socket"] != "":
		query.Set("socket", parts["unix_socket"])
	case parts["port"] != "":
		u.Host = parts["host"] + ":" + parts["port"]
	default:
		u.Host = parts["host"]
	}
	switch {
	case parts["password"] != "":
		u.User = url.UserPassword(parts["user"], parts["password"])
	case parts["user"] != "":
		u.User = url.User(parts["user"])
	}
	return inLayout(u, query)
}

func inLayout(u *url.URL, query url.Values) (*url.URL, error) {
	if query.Has("layout") {
		return nil, invalid("layout does not go with symfony+, which says it")
	}
	query.Set("layout", "symfony")
	u.RawQuery = query.Encode()
	return u, nil
}
