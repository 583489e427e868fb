package pgadvisory

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// libpqParams lists the parameters of pgx and libpq that a URL may have.
var libpqParams = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslsni", "sslnegotiation", "channel_binding",
	"connect_timeout", "target_session_attrs", "host", "port", "dbname", "user", "passfile", "service", "servicefile",
}

// FromURL opens the store that a URL names:
//
//	postgres+advisory://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE
//	postgres+advisory:///DATABASE?host=/run/postgresql      a unix socket
//
// The URL may have these parameters:
//
//	layout=symfony       SymfonyLayout; hash is the default
//	fences=no            NoFences
//	namespace=TEXT       Namespace
//	schema=NAME          InSchema
//	loss-delay=DURATION  LossDelay
//	max-holds=N          MaxHolds
//	lazy=yes             Lazy
//	password-file=FILE   the password, read again for each connection
//
// The URL may also have parameters of libpq, such as sslmode, sslrootcert and target_session_attrs.
// Parts that the URL leaves out come from libpq's environment variables (PGHOST, PGPORT,
// PGDATABASE, PGUSER, PGPASSWORD, PGPASSFILE, PGSSLMODE, PGSERVICE, …) and from the file ~/.pgpass.
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	t, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, t.server, append(t.opts, opts...)...)
}

// A target is a URL that parseURL has read.
type target struct {
	server *pgx.ConnConfig
	opts   []Option
}

func (t *target) add(o Option) { t.opts = append(t.opts, o) }

// parseURL reads a URL. It opens no connection.
func parseURL(u *url.URL) (*target, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, invalid("the parameters of the URL cannot be read")
	case !slices.Contains(schemes, u.Scheme):
		return nil, invalid("the URL begins with %s:, not with %s:", schemes[0], u.Scheme)
	case u.Opaque != "" || u.Fragment != "":
		return nil, invalid("the URL has the form %s; in a password, # is written %%23", example)
	}
	t := &target{}
	for name, values := range query {
		read, ofLibpq := parameters[name], slices.Contains(libpqParams, name)
		switch {
		case read == nil && !ofLibpq:
			return nil, invalid("there is no parameter %q; there are %s", name, strings.Join(knownParams(), ", "))
		case len(values) != 1:
			return nil, invalid("the parameter %s is given more than once", name)
		case ofLibpq:
			continue
		}
		if err := read(t, values[0]); err != nil {
			return nil, err
		}
		delete(query, name)
	}
	if _, both := u.User.Password(); both && u.Query().Has("password-file") {
		return nil, invalid("the password is in the URL and in a file; leave one of them out")
	}
	plain := *u
	plain.Scheme, plain.RawQuery = "postgres", query.Encode()
	if t.server, err = pgx.ParseConfig(plain.String()); err != nil {
		// The text of the error may contain a value of the URL or of the environment.
		return nil, invalid("the URL, a PG* variable or a file that they name cannot be used: look at sslmode, the files of certificates, port and connect_timeout")
	}
	return t, checkTLS(&t.server.Config)
}

// knownParams lists the parameters that a URL may have.
func knownParams() []string {
	names := slices.Clone(libpqParams)
	for name := range parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parameters has padlock's own URL parameters.
var parameters = map[string]func(t *target, value string) error{
	"layout": func(t *target, v string) error {
		switch v {
		case "symfony":
			t.add(SymfonyLayout())
		case "hash":
		default:
			return invalid("layout: it is hash or symfony")
		}
		return nil
	},
	"fences": func(t *target, v string) error {
		fences, err := yes("fences", v)
		if !fences {
			t.add(NoFences())
		}
		return err
	},
	"lazy": func(t *target, v string) error {
		lazy, err := yes("lazy", v)
		if lazy {
			t.add(Lazy())
		}
		return err
	},
	"namespace": func(t *target, v string) error { t.add(Namespace(v)); return nil },
	"schema": func(t *target, v string) error {
		t.add(InSchema(v))
		_, err := fenceTable(v)
		return err
	},
	"loss-delay": func(t *target, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return invalid("loss-delay: it is a duration such as 10s")
		}
		t.add(LossDelay(d))
		return nil
	},
	"max-holds": func(t *target, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return invalid("max-holds: it is a number from 1")
		}
		t.add(MaxHolds(n))
		return nil
	},
	"password-file": func(t *target, v string) error {
		if v == "" {
			return invalid("password-file: write the path of a file")
		}
		t.add(func(c *config) { c.password = func() (string, error) { return readPassword(v) } })
		return nil
	},
}

func yes(name, value string) (bool, error) {
	if value != "yes" && value != "no" {
		return true, invalid("%s: it is yes or no", name)
	}
	return value == "yes", nil
}

// readPassword reads the password from a file. No error contains the password.
func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("password-file: %w", err)
	}
	password, _ := strings.CutSuffix(string(text), "\n")
	password, _ = strings.CutSuffix(password, "\r")
	if password == "" {
		return "", fmt.Errorf("password-file: there is no password in %s", file)
	}
	return password, nil
}

// servers returns the addresses of the servers in a URL.
func servers(u *url.URL) (addresses []string, encrypted bool) {
	t, err := parseURL(u)
	if err != nil {
		return nil, false
	}
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !strings.HasPrefix(host, "/") && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	add(t.server.Host, t.server.Port)
	for _, f := range t.server.Fallbacks {
		add(f.Host, f.Port)
	}
	return addresses, t.server.TLSConfig != nil
}

// atProxy returns a copy of the URL in which the address of a proxy replaces the server's. If the
// client checks a certificate, atProxy returns nil, because a certificate names the host.
func atProxy(u *url.URL, address string) *url.URL {
	addresses, _ := servers(u)
	query := u.Query()
	if len(addresses) != 1 || strings.HasPrefix(query.Get("sslmode"), "verify") {
		return nil
	}
	query.Del("host")
	query.Del("port")
	there := *u
	there.Host, there.RawQuery = address, query.Encode()
	return &there
}
