package pgadvisory

import (
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// schemes are the schemes of the store's URLs. The usual one comes first.
var schemes = []string{"postgres+advisory", "postgresql+advisory"}

const example = "postgres+advisory://localhost/shop"

// Scheme describes the URLs of advisory locks for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       schemes,
		Help:        "advisory locks of a PostgreSQL server, which end with the connection",
		Example:     example,
		Guarantees:  usualPromises,
		Open:        storeurl.Opens(FromURL, Lazy(), lenient),
		Symfony:     []string{"pgsql+advisory", "postgres+advisory", "postgresql+advisory"},
		FromSymfony: fromSymfony,
		Servers:     servers,
		Schema:      schemaOf,
	}
}

// usualPromises returns what a store without options promises.
func usualPromises() driver.Guarantees {
	c := defaults()
	return c.guarantees()
}

// lenient is for a store that is opened only to be examined.
func lenient(c *config) { c.Lenient = true }

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
	if err != nil || c.NoFences {
		return nil, err
	}
	return Schema(c.schema)
}

func fromSymfony(dsn string) (*url.URL, error) {
	u, err := storeurl.FromDatabaseDSN(schemes[0], dsn, "")
	if err != nil {
		return nil, err
	}
	return storeurl.InSymfonyLayout(u, u.Query())
}
