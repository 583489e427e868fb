package symfony

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// parameters lists the parameters of this store's URLs, without those of [sqlstore.Opener.Pool].
var parameters = []string{"layout", "db_table", "db_id_col", "db_token_col", "db_expiration_col", "lazy"}

// Scheme returns the storeurl.Scheme for the URLs of an engine. A URL belongs to this store if it
// has the parameter "layout", or if it is a DSN of PHP's Symfony with "symfony+" in front. Every
// other URL belongs to package sqlstore. In a DSN, charset, persistent and serverVersion are
// ignored, and others that [FromURL] lacks are driver.ErrInvalid.
func Scheme(o sqlstore.Opener) storeurl.Scheme {
	s := o.Scheme()
	own := s
	opens := storeurl.Opens(func(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
		return FromURL(ctx, u, o, opts...)
	}, Lazy(), func(c *config) { c.lenient = true })
	s.Open = func(ctx context.Context, u *url.URL, opening storeurl.Opening) (driver.Store, error) {
		if !ofLayout(u) {
			return own.Open(ctx, u, opening)
		}
		return opens(ctx, u, opening)
	}
	s.Schema = func(u *url.URL) ([]string, error) {
		if !ofLayout(u) {
			return own.Schema(u)
		}
		t, err := parse(u, o)
		if err != nil {
			return nil, err
		}
		return Schema(o.Engine, t.opts...)
	}
	s.Symfony = dsns[o.Engine]
	s.FromSymfony = func(dsn string) (*url.URL, error) { return fromSymfony(o, dsn) }
	return s
}

// ofLayout reports whether a URL belongs to this store.
func ofLayout(u *url.URL) bool { return u.Query().Has("layout") }

// FromURL opens the store in the database that a URL names. o chooses the driver:
//
//	store, err := symfony.FromURL(ctx, u, postgres.Opener())
//
// The URL must have one of these parameters:
//
//	layout=symfony         the layout of Symfony 7.4 and later
//	layout=symfony73       the layout up to Symfony 7.3
//
// It may have these parameters, and those of the driver ([sqlstore.Opener].Parameters):
//
//	db_table=NAME          Table
//	db_id_col=NAME         the first name of Columns
//	db_token_col=NAME      the second name of Columns
//	db_expiration_col=NAME the third name of Columns
//	pool=N                 at most N connections; 8 is the default, and 3 with SQLite
//	password-file=FILE     the password, read again for each connection
//	lazy=yes               Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. The store has its own pool, which Close closes. No error
// contains a user or a password.
func FromURL(ctx context.Context, u *url.URL, o sqlstore.Opener, opts ...Option) (*Store, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	db, err := o.Pool(t.u)
	if err != nil {
		return nil, err
	}
	opts = append(append(t.opts, opts...), func(c *config) { c.ownsDB = true })
	s, err := Open(ctx, db, o.Engine, t.layout, opts...)
	if err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// A target is a URL that parse has read.
type target struct {
	u      *url.URL // without the parameters of this store
	layout Layout
	opts   []Option
}

// layouts contains the Layout for each value of the URL parameter "layout".
var layouts = map[string]Layout{Symfony.String(): Symfony, Symfony73.String(): Symfony73}

// whichLayout tells users which value of the URL parameter "layout" to write. Programs with
// different layouts do not exclude each other.
const whichLayout = "write layout=symfony73 if PHP has Symfony 7.3 or older, and layout=symfony if it has 7.4 or later"

// parse reads the parameters of this store from a URL.
func parse(u *url.URL, o sqlstore.Opener) (*target, error) {
	column := func(name func(c *config) *string) storeurl.Param[Option] {
		return storeurl.Text(func(text string) Option { return func(c *config) { *name(c) = text } })
	}
	form := storeurl.Form[Option]{
		Schemes: o.Names, Example: o.Scheme().Example,
		Params: map[string]storeurl.Param[Option]{
			"layout":            storeurl.Keep[Option],
			"db_table":          storeurl.Text(Table),
			"db_id_col":         column(func(c *config) *string { return &c.id }),
			"db_token_col":      column(func(c *config) *string { return &c.token }),
			"db_expiration_col": column(func(c *config) *string { return &c.expiration }),
			"lazy":              storeurl.IfYes(Lazy()),
		},
		Others: append([]string{"pool", "password-file"}, o.Parameters...),
		Repeat: o.Engine == sqlstore.SQLite, // a URL may have several pragmas
	}
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	t := &target{u: &r.URL, layout: layouts[r.Values["layout"]], opts: r.Opts}
	if t.layout == 0 {
		return nil, storekit.Invalidf("layout: %s", whichLayout)
	}
	_, err = configure(o.Engine, t.layout, t.opts)
	return t, err
}
