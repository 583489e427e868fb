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

// An Opener connects to the databases of one engine. The packages below sqlstore/drivers have one
// each, so a program links only the drivers that it names.
type Opener struct {
	Engine Engine
	// Names are the schemes of its URLs. The usual one comes first.
	Names []string
	// Parameters lists the parameters of a URL that Open understands. FromURL refuses others.
	Parameters []string
	// Open returns a pool for the database that u names, and a Listener or nil. It need not reach
	// the server. The query of u has only Parameters. password, if it is not nil, returns the
	// password for each new connection. ErrInvalid means that u is wrong. Neither this error nor
	// those of the pool repeat a user or a password.
	Open func(u *url.URL, password func() (string, error)) (*sql.DB, Listener, error)
	// Servers returns the addresses that u names, as HOST:PORT, and whether the connections are
	// encrypted. It may be nil.
	Servers func(u *url.URL) (addresses []string, encrypted bool)
	// At returns u with its only server at another address, or nil. It may be nil.
	At func(u *url.URL, address string) *url.URL
}

// FromURL opens the store in the database that a URL names. o says which driver connects:
//
//	store, err := sqlstore.FromURL(ctx, u, postgres.Opener())
//
// The URL may have these parameters, and those of the driver ([Opener].Parameters):
//
//	schema=NAME          InSchema (PostgreSQL, MySQL)
//	notify=no            waiters poll (PostgreSQL)
//	pool=N               at most N connections; 8 is the default, and 2 with SQLite
//	password-file=FILE   the password, read again for each connection
//	lazy=yes             Lazy
//
// Any other parameter is driver.ErrInvalid. opts are applied after the parameters of the URL. ctx
// bounds the opening only. The store has a pool of its own, which Close closes. No error contains
// a user or a password.
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

// limit bounds a pool of padlock's own.
func limit(db *sql.DB, e Engine, most int) {
	if most == 0 {
		if most = 8; e == SQLite {
			most = 2
		}
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns((most + 1) / 2)
	db.SetConnMaxIdleTime(time.Minute)
	if e == MySQL {
		db.SetConnMaxLifetime(5 * time.Minute) // servers and proxies end connections that are old
	}
}

// A target is a URL after parse.
type target struct {
	u        *url.URL // without padlock's own parameters
	opts     []Option
	schema   string
	password func() (string, error)
	pool     int
	silent   bool // notify=no
}

// parse reads padlock's own parameters of a URL.
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
		read := parameters[name]
		switch {
		case read == nil && slices.Contains(o.Parameters, name):
			continue
		case read == nil || o.Engine == SQLite && noneInFiles[name]:
			return nil, invalid("there is no parameter %q; there are %s", name, strings.Join(known(o), ", "))
		case len(values) != 1:
			return nil, invalid("the parameter %s is given more than once", name)
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

// parameters are those of padlock itself.
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

// noneInFiles are the parameters that make no sense for a file.
var noneInFiles = map[string]bool{"schema": true, "notify": true, "password-file": true}

// known lists the parameters of an engine's URLs.
func known(o Opener) []string {
	names := slices.Clone(o.Parameters)
	for name := range parameters {
		if o.Engine != SQLite || !noneInFiles[name] {
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
