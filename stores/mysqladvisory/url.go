package mysqladvisory

import (
	"context"
	"database/sql"
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// An Opener connects to servers with a driver. Package sqlstore/drivers/mysql contains one.
// Programs that do not import that package are built without the driver.
type Opener struct {
	// Parameters lists the URL parameters that Open understands. FromURL rejects all others.
	Parameters []string
	// Open returns a pool for the server that u names. The path of u is the database, and may be
	// empty. The query of u contains no other parameters than those in the field Parameters. Open
	// need not contact the server. The function password, if not nil, returns the password. The
	// pool calls it for each new connection. ErrInvalid means that u is wrong. Neither this error
	// nor those of the pool may contain a user or a password.
	Open func(u *url.URL, password func() (string, error)) (*sql.DB, error)
	// Servers returns the addresses in u, as HOST:PORT, and whether the connections are encrypted.
	// The field Servers may be nil.
	Servers func(u *url.URL) (addresses []string, encrypted bool)
}

// FromURL opens the store that a URL names. Pass the function AdvisoryOpener of package
// sqlstore/drivers/mysql, or another Opener. The URL has one of these forms:
//
//	mysql+advisory://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE
//	mysql+advisory://[USER[:PASSWORD]@]/DATABASE?socket=/run/mysqld/mysqld.sock
//
// The URL may have these parameters, and those of the driver ([Opener].Parameters):
//
//	fences=no                  NoFences
//	schema=NAME                InSchema
//	loss-delay=DURATION        LossDelay
//	lazy=yes                   Lazy
//	password-file=FILE         the password, read again for each connection
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. The store has its own pool, which Close closes. No error
// contains a user or a password.
func FromURL(ctx context.Context, u *url.URL, o Opener, opts ...Option) (*Store, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	db, err := o.Open(t.u, t.password)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(0) // the store closes its connections itself
	s, err := Open(ctx, db, slices.Concat(t.opts, opts, []Option{func(c *config) { c.ownsDB = true }})...)
	if err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// A target is a URL that parse has read.
type target struct {
	u        *url.URL // without padlock's own parameters
	opts     []Option
	password func() (string, error)
}

func (o Opener) form() *storeurl.Form[Option] {
	return &storeurl.Form[Option]{
		Schemes: schemes, Example: example, Others: o.Parameters,
		Params: map[string]storeurl.Param[Option]{
			"fences":        storeurl.IfNo(NoFences()),
			"lazy":          storeurl.IfYes(Lazy()),
			"loss-delay":    storeurl.Duration(LossDelay),
			"password-file": storeurl.PasswordFile[Option],
			"schema": func(r *storeurl.Reading[Option], _, v string) error {
				r.Add(InSchema(v))
				_, err := fenceTable(v)
				return err
			},
		},
	}
}

// parse reads padlock's own parameters from a URL.
func parse(u *url.URL, o Opener) (*target, error) {
	r, err := o.form().Read(u)
	if err != nil {
		return nil, err
	}
	t := &target{u: &r.URL, opts: r.Opts, password: r.Password}
	if c, err := t.config(); err != nil {
		return nil, err
	} else if !c.NoFences && c.schema == "" && strings.Trim(u.Path, "/") == "" {
		return nil, storekit.Invalidf("the URL names no database for the table of fences; write %s://HOST/DATABASE, or leave fences out (fences=no)", schemes[0])
	}
	return t, nil
}

// config returns the configuration that the URL describes.
func (t *target) config() (config, error) {
	c := defaults()
	for _, o := range t.opts {
		o(&c)
	}
	return c, c.check()
}
