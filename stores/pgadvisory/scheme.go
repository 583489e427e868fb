package pgadvisory

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// schemes are the schemes of the store's URLs. The usual one comes first.
var schemes = []string{"postgres+advisory", "postgresql+advisory"}

const example = "postgres+advisory://localhost/shop"

// Scheme describes the URLs of advisory locks for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:       schemes,
		Help:        "advisory locks of a PostgreSQL server, which end with the connection",
		Example:     example,
		Guarantees:  usualPromises,
		Open:        openURL,
		Symfony:     []string{"pgsql+advisory", "postgres+advisory", "postgresql+advisory"},
		FromSymfony: fromSymfony,
		Servers:     servers,
		At:          atProxy,
		Schema:      schemaOf,
		Upgrade:     upgrade,
	}
}

// usualPromises returns what a store without options promises.
func usualPromises() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

func openURL(ctx context.Context, u *url.URL, o driver.Opening) (driver.Store, error) {
	var opts []Option
	if o.Lazy && !u.Query().Has("lazy") || o.Lenient {
		opts = append(opts, Lazy())
	}
	if o.Lenient {
		opts = append(opts, func(c *config) { c.lenient = true })
	}
	s, err := FromURL(ctx, u, opts...)
	if err != nil {
		return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
	}
	return s, nil
}

// configOf returns the configuration that a URL describes.
func configOf(u *url.URL) (config, error) {
	c := defaults()
	t, err := parseURL(u)
	if err != nil {
		return c, err
	}
	for _, o := range t.opts {
		o(&c)
	}
	return c, c.check()
}

// schemaOf returns the statements that create the table of fences.
func schemaOf(u *url.URL) ([]string, error) {
	c, err := configOf(u)
	if err != nil || c.noFences {
		return nil, err
	}
	return Schema(c.schema)
}

// upgrade creates the table of fences if it is missing. If the table has no version, upgrade writes
// it.
func upgrade(ctx context.Context, u *url.URL) (from, to int, err error) {
	s, err := FromURL(ctx, u, Lazy())
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	if s.cfg.noFences {
		return schemaVersion, schemaVersion, nil
	}
	from, err = calls.Do(ctx, &s.calls, func() (int, error) {
		c, err := s.pool.anyConn()
		if err != nil {
			return 0, err
		}
		from, err := versionOf(c, &s.sql.fence)
		if err != nil {
			return from, err
		}
		missing := s.sql.makeTable
		if from > 0 {
			missing = missing[1:] // the table exists, perhaps without a version
		}
		return from, makeTable(c, missing)
	})
	return from, schemaVersion, err
}

// fromSymfony translates a DSN of PHP's Symfony. Such a DSN is pgsql+advisory:host=…;dbname=… for
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
		return inLayout(u, query)
	}
	u, query := &url.URL{Scheme: schemes[0], Path: "/"}, url.Values{}
	var user, password, port string
	for part := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case !ok && name != "":
			return nil, invalid("the DSN has a part that is not NAME=VALUE")
		case name == "host" && !strings.HasPrefix(value, "/"):
			u.Host = value
		case name == "port":
			port = value
		case name == "dbname":
			u.Path = "/" + value
		case name == "user":
			user = value
		case name == "password":
			password = value
		case name != "":
			query.Set(name, value)
		}
	}
	if port != "" && u.Host != "" {
		u.Host += ":" + port
	} else if port != "" {
		query.Set("port", port)
	}
	if password != "" {
		u.User = url.UserPassword(user, password)
	} else if user != "" {
		u.User = url.User(user)
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
