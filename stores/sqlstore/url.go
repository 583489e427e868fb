package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Opener connects to the databases of one engine. Each package below sqlstore/drivers has one,
// so a program links only the drivers that it names.
type Opener struct {
	Engine Engine
	// Names are the schemes of the engine's URLs. The usual one comes first.
	Names []string
	// Parameters lists the URL parameters that Open understands. FromURL rejects all others.
	Parameters []string
	// Open returns a pool for the database that u names. It also returns a Listener, or nil. Open
	// need not contact the server. The query of u contains only parameters that the field
	// Parameters lists. If the function password is not nil, it returns the password for each new
	// connection. An error of Open is ErrInvalid if u is wrong. No error of Open or of the pool may
	// contain a user or a password.
	Open func(u *url.URL, password func() (string, error)) (*sql.DB, Listener, error)
	// Servers returns the addresses in u, as HOST:PORT, and whether the connections are encrypted.
	// The field Servers may be nil.
	Servers func(u *url.URL) (addresses []string, encrypted bool)
	// At, if not nil, is a function that replaces the server's address in a URL. It returns nil if
	// that is not possible, for instance because u names several servers.
	At func(u *url.URL, address string) *url.URL
}

// FromURL opens the store in the database that a URL names. o chooses the driver:
//
//	store, err := sqlstore.FromURL(ctx, u, postgres.Opener())
//
// The URL may have these parameters, and those of the driver ([Opener].Parameters):
//
//	schema=NAME          InSchema (PostgreSQL, MySQL)
//	notify=no            waiters poll (PostgreSQL)
//	pool=N               at most N connections; 8 is the default, and 3 with SQLite
//	password-file=FILE   the password, read again for each connection
//	lazy=yes             Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. The store has its own pool, which Close closes. No error
// contains a user or a password.
func FromURL(ctx context.Context, u *url.URL, o Opener, opts ...Option) (*Store, error) {
	p, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	db, listener, err := o.Open(p.u, p.password)
	if err != nil {
		return nil, err
	}
	limit(db, o.Engine, p.pool)
	if listener != nil && !p.silent {
		p.opts = append(p.opts, Notify(listener))
	}
	p.opts = append(append(p.opts, opts...), func(c *config) { c.ownsDB = true })
	s, err := Open(ctx, db, o.Engine, p.opts...)
	if err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// Pool opens the pool that a URL names, for a store that has tables of its own. It accepts the
// parameters "pool" and "password-file", and those of the driver. Any other parameter is an error.
// Pool need not contact the server.
func (o Opener) Pool(u *url.URL) (*sql.DB, error) {
	for _, name := range []string{"schema", "notify", "lazy"} {
		if u.Query().Has(name) {
			return nil, invalid("the parameter %s does not go with this layout", name)
		}
	}
	p, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	db, _, err := o.Open(p.u, p.password)
	if err != nil {
		return nil, err
	}
	limit(db, o.Engine, p.pool)
	return db, nil
}

// limit limits the size of a pool that padlock has opened, and the age of its connections.
func limit(db *sql.DB, e Engine, most int) {
	if most == 0 {
		if most = 8; e == SQLite {
			most = watchPool
		}
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns((most + 1) / 2)
	db.SetConnMaxIdleTime(time.Minute)
	if e == MySQL {
		db.SetConnMaxLifetime(5 * time.Minute) // servers and proxies end connections that are old
	}
}

// A target is a URL that parse has read.
type target struct {
	u        *url.URL // without padlock's own parameters
	opts     []Option
	schema   string
	password func() (string, error)
	pool     int
	silent   bool // notify=no
}

// parse reads padlock's own parameters from a URL.
func parse(u *url.URL, o Opener) (*target, error) {
	switch {
	case !slices.Contains(o.Names, u.Scheme):
		return nil, invalid("the URL begins with %s:, not with %s:", o.Names[0], u.Scheme)
	case u.Opaque != "" || u.Fragment != "":
		return nil, invalid("the URL has the form %s; in a password, # is written %%23", example[o.Engine])
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("the parameters of the URL cannot be read")
	}
	rest := *u
	p := &target{u: &rest}
	for name, values := range query {
		read, ofDriver := parameters[name], slices.Contains(o.Parameters, name)
		switch {
		case read == nil && !ofDriver || o.Engine == SQLite && notForSQLite[name]:
			return nil, invalid("there is no parameter %q; there are %s", name, strings.Join(knownParams(o), ", "))
		case len(values) != 1 && !(ofDriver && o.Engine == SQLite): // a URL may have several pragmas
			return nil, invalid("the parameter %s is given more than once", name)
		case ofDriver:
			continue
		}
		if err := read(p, values[0]); err != nil {
			return nil, err
		}
		delete(query, name)
	}
	if _, both := u.User.Password(); both && p.password != nil {
		return nil, invalid("the password is in the URL and in a file; leave one of them out")
	}
	rest.RawQuery = query.Encode()
	return p, nil
}

// parameters has padlock's own URL parameters.
var parameters = map[string]func(p *target, value string) error{
	"schema": func(p *target, v string) error {
		p.schema = v
		p.opts = append(p.opts, InSchema(v))
		_, err := tablesIn(PostgreSQL, v)
		return err
	},
	"notify": func(p *target, v string) (err error) {
		notify, err := yes("notify", v)
		p.silent = !notify
		return err
	},
	"lazy": func(p *target, v string) error {
		lazy, err := yes("lazy", v)
		if lazy {
			p.opts = append(p.opts, Lazy())
		}
		return err
	},
	"pool": func(p *target, v string) (err error) {
		if p.pool, err = strconv.Atoi(v); err != nil || p.pool < 1 {
			return invalid("pool: it is a number from 1")
		}
		return nil
	},
	"password-file": func(p *target, v string) error {
		if v == "" {
			return invalid("password-file: write the path of a file")
		}
		p.password = func() (string, error) { return readPassword(v) }
		return nil
	},
}

// notForSQLite contains the parameters that a URL for SQLite must not have.
var notForSQLite = map[string]bool{"schema": true, "notify": true, "password-file": true}

// knownParams lists the parameters of an engine's URLs.
func knownParams(o Opener) []string {
	names := slices.Clone(o.Parameters)
	for name := range parameters {
		if o.Engine != SQLite || !notForSQLite[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func yes(name, value string) (bool, error) {
	if value != "yes" && value != "no" {
		return false, invalid("%s: it is yes or no", name)
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
