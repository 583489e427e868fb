package sqlstore

import (
	"context"
	"database/sql"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
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

// Pool opens the pool that a URL names, for a store that has tables of its own. Of the parameters
// of FromURL, only "pool", "password-file" and those of the driver have an effect. Pool need not
// contact the server.
func (o Opener) Pool(u *url.URL) (*sql.DB, error) {
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
	db.SetMaxIdleConns(most)
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

func (o Opener) form(t *target) *storeurl.Form[Option] {
	params := map[string]storeurl.Param[Option]{
		"lazy": storeurl.IfYes(Lazy()),
		"pool": func(_ *storeurl.Reading[Option], name, v string) (err error) {
			if t.pool, err = strconv.Atoi(v); err != nil || t.pool < 1 {
				return storekit.Invalidf("%s: it is a number from 1", name)
			}
			return nil
		},
	}
	if o.Engine == PostgreSQL {
		params["search_path"] = func(*storeurl.Reading[Option], string, string) error {
			return storekit.Invalidf("search_path does not move padlock's tables: write schema=NAME")
		}
	}
	if o.Engine != SQLite {
		params["password-file"] = storeurl.PasswordFile[Option]
		params["notify"] = storeurl.Yes[Option]
		params["schema"] = func(r *storeurl.Reading[Option], _, v string) error {
			t.schema = v
			r.Add(InSchema(v))
			_, err := tablesIn(PostgreSQL, v)
			return err
		}
	}
	others := slices.DeleteFunc(slices.Clone(o.Parameters), func(name string) bool { return params[name] != nil })
	return &storeurl.Form[Option]{Schemes: o.Names, Example: example[o.Engine], Params: params, Others: others,
		Repeat: o.Engine == SQLite} // a URL may have several pragmas
}

// parse reads padlock's own parameters from a URL.
func parse(u *url.URL, o Opener) (*target, error) {
	t := &target{}
	r, err := o.form(t).Read(u)
	if err != nil {
		return nil, err
	}
	t.u, t.opts, t.password, t.silent = &r.URL, r.Opts, r.Password, r.Values["notify"] == "no"
	return t, nil
}
