// Package postgres connects package sqlstore to PostgreSQL with pgx.
//
// Use it to open a store from a URL. If your program uses another driver or has a *sql.DB already,
// call sqlstore.Open instead.
package postgres

import (
	"cmp"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/login"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// parameters lists parameters of pgx and libpq. Settings of the session are written as options=-c….
var parameters = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslsni", "sslnegotiation", "channel_binding",
	"application_name", "connect_timeout", "target_session_attrs", "options", "search_path",
	"host", "port", "dbname", "user", "passfile", "service", "servicefile",
	"default_query_exec_mode", "statement_cache_capacity",
}

// Opener connects to URLs of the form
//
//	postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE
//	postgres:///DATABASE?host=/run/postgresql      a unix socket
//
// A URL may have the parameters of libpq, such as sslmode and target_session_attrs. For a host
// other than this machine, sslmode must not allow a fall-back to plain text: use verify-full,
// verify-ca, require or disable.
//
// Parts that a URL leaves out come from libpq's environment variables (PGHOST, PGPORT, PGDATABASE,
// PGUSER, PGPASSWORD, PGPASSFILE, PGSSLMODE, PGSERVICE, …) and from the file ~/.pgpass. All
// programs that share locks must name the same database.
//
// padlock detects a pooler such as PgBouncer. Behind one, it prepares no statements, and waiters
// poll unless the pooler passes notifications on.
func Opener() sqlstore.Opener {
	return sqlstore.Opener{
		Engine:     sqlstore.PostgreSQL,
		Names:      []string{"postgres", "postgresql"},
		Parameters: parameters,
		Open:       open,
		Servers:    servers,
	}
}

// Scheme describes the URLs, for package open.
func Scheme() storeurl.Scheme { return symfony.Scheme(Opener()) }

// Open returns a pool for a URL, and the Listener for sqlstore.Notify. Use it if your program keeps
// its own data in the database of the locks. The URL may have only parameters of libpq.
func Open(rawURL string) (*sql.DB, sqlstore.Listener, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the URL cannot be read", driver.ErrInvalid)
	}
	return open(u, nil)
}

func open(u *url.URL, password func() (string, error)) (*sql.DB, sqlstore.Listener, error) {
	cfg, err := configure(u)
	if err != nil {
		return nil, nil, err
	}
	c := &connector{cfg: cfg, password: password, fixed: u.Query().Has("default_query_exec_mode")}
	return sql.OpenDB(login.Connector{Inner: c, Secrets: c.secrets}), &listener{c: c, quiet: quietTime, reply: probeTime}, nil
}

func configure(u *url.URL) (*pgx.ConnConfig, error) {
	there := *u
	there.Path = cmp.Or(u.Path, "/") // an empty path without a host would give a URL without slashes
	cfg, err := pgx.ParseConfig(there.String())
	if err != nil {
		// The text of the error may contain a value of the URL or of the environment.
		return nil, fmt.Errorf("%w: the URL, a PG* variable or a file that they name cannot be used: look at sslmode, the files of certificates, port and connect_timeout", driver.ErrInvalid)
	}
	if host := fallsBack(cfg); host != "" {
		return nil, fmt.Errorf("%w: the connection to %s may fall back to plain text; write sslmode=verify-full (with sslrootcert=FILE for a CA of your own), sslmode=require, or sslmode=disable", driver.ErrInvalid, host)
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8" // pgx's simple protocol needs it, and a database may have another default
	return cfg, nil
}

// fallsBack returns a host that pgx may try twice: with TLS and without TLS. With sslmode=prefer
// (libpq's default) or sslmode=allow, pgx makes the second attempt when the first one fails.
// fallsBack ignores hosts that are this machine. It returns "" if no host is left.
func fallsBack(cfg *pgx.ConnConfig) string {
	type target struct {
		host string
		port uint16
	}
	encrypted := map[target]bool{{cfg.Host, cfg.Port}: cfg.TLSConfig != nil}
	for _, f := range cfg.Fallbacks {
		t := target{f.Host, f.Port}
		was, seen := encrypted[t]
		if seen && was != (f.TLSConfig != nil) && !login.Local(f.Host) {
			return f.Host
		}
		encrypted[t] = f.TLSConfig != nil
	}
	return ""
}

func servers(u *url.URL) (addresses []string, encrypted bool) {
	cfg, err := configure(u)
	if err != nil {
		return nil, false
	}
	encrypted = cfg.TLSConfig != nil
	seen := map[string]bool{}
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, fmt.Sprint(port))
		if !strings.HasPrefix(host, "/") && !seen[address] {
			seen[address] = true
			addresses = append(addresses, address)
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		encrypted = encrypted && f.TLSConfig != nil
		add(f.Host, f.Port)
	}
	return addresses, encrypted
}
