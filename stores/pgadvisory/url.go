package pgadvisory

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
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
//	layout=number        NumberLayout
//	fences=no            NoFences
//	namespace=TEXT       Namespace
//	schema=NAME          InSchema
//	loss-delay=DURATION  LossDelay
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

var form = storeurl.Form[Option]{
	Schemes: schemes, Example: example, Others: libpqParams,
	Params: map[string]storeurl.Param[Option]{
		"layout":        readLayout,
		"fences":        storeurl.IfNo(NoFences()),
		"lazy":          storeurl.IfYes(Lazy()),
		"namespace":     storeurl.Text(Namespace),
		"loss-delay":    storeurl.Duration(LossDelay),
		"password-file": storeurl.PasswordFile[Option],
		"schema": func(r *storeurl.Reading[Option], _, v string) error {
			r.Add(InSchema(v))
			_, err := fenceTable(v)
			return err
		},
	},
}

func readLayout(r *storeurl.Reading[Option], _, v string) error {
	switch v {
	case "hash":
	case "symfony":
		r.Add(SymfonyLayout())
	case "number":
		r.Add(NumberLayout())
	default:
		return storekit.Invalidf("layout: it is hash, symfony or number")
	}
	return nil
}

// parseURL reads a URL. It opens no connection.
func parseURL(u *url.URL) (*target, error) {
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	if r.Password != nil {
		r.Add(func(c *config) { c.password = r.Password })
	}
	t := &target{opts: r.Opts}
	r.URL.Scheme = "postgres"
	if t.server, err = pgx.ParseConfig(r.URL.String()); err != nil {
		// The text of the error may contain a value of the URL or of the environment.
		return nil, storekit.Invalidf("the URL, a PG* variable or a file that they name cannot be used: look at sslmode, the files of certificates, port and connect_timeout")
	}
	return t, checkTLS(&t.server.Config)
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
