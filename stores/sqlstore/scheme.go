package sqlstore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// example has one example URL for each engine.
var example = map[Engine]string{
	PostgreSQL: "postgres://localhost/shop",
	MySQL:      "mysql://localhost/shop",
	SQLite:     "sqlite:///var/lib/shop/locks.db",
}

var help = map[Engine]string{
	PostgreSQL: "a table in PostgreSQL",
	MySQL:      "a table in MySQL or MariaDB",
	SQLite:     "a table in a file of SQLite, for the processes of one machine",
}

// Scheme describes the URLs of an engine for package open. [FromURL] lists these URLs.
func (o Opener) Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:      o.Names,
		Help:       help[o.Engine],
		Example:    example[o.Engine],
		Guarantees: func() driver.Guarantees { return promised(o.Engine) },
		Open:       storeurl.Opens(o.fromURL, Lazy(), lenient),
		Instead:    o.foreignDSN,
		Servers:    o.Servers,
		Schema:     o.schema,
	}
}

// fromURL is FromURL with the driver of o.
func (o Opener) fromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	return FromURL(ctx, u, o, opts...)
}

// lenient is for a store that is opened only to be examined.
func lenient(c *config) { c.lenient = true }

// schema returns the statements that create the tables.
func (o Opener) schema(u *url.URL) ([]string, error) {
	p, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	return Schema(o.Engine, p.schema)
}

// spellings lists, for each engine, the URL schemes and prefixes that other programs use.
var spellings = map[Engine][]string{
	PostgreSQL: {"pgsql", "postgres", "postgresql", "pdo_pgsql", "pdo-pgsql"},
	MySQL:      {"mysql", "mysql2", "mariadb", "pdo_mysql", "pdo-mysql"},
	SQLite:     {"sqlite", "sqlite3", "pdo_sqlite", "pdo-sqlite"},
}

var form = map[Engine]string{
	PostgreSQL: "postgres://USER:PASSWORD@HOST/DATABASE",
	MySQL:      "mysql://USER:PASSWORD@HOST/DATABASE",
	SQLite:     "sqlite:///PATH",
}

// foreignDSN recognises the DSNs of PHP and of other programs.
func (o Opener) foreignDSN(text string) string {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return ""
	}
	for _, name := range o.Names {
		if scheme == name && (strings.HasPrefix(rest, "//") || strings.Contains(rest, "@")) {
			return "" // a URL: parse reports what is wrong with it
		}
	}
	for _, name := range spellings[o.Engine] {
		if scheme == name {
			return form[o.Engine]
		}
	}
	return ""
}
