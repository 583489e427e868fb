package mysqladvisory

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
	// At, if not nil, is a function that replaces the server's address in a URL. It returns nil if
	// that is not possible, for instance because u names several servers.
	At func(u *url.URL, address string) *url.URL
}

// FromURL opens the store that a URL names. Pass the function AdvisoryOpener of package
// sqlstore/drivers/mysql, or another Opener. The URL has one of these forms:
//
//	mysql+advisory://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE
//	mysql+advisory://[USER[:PASSWORD]@]/DATABASE?socket=/run/mysqld/mysqld.sock
//
// The URL may have these parameters, and those of the driver ([Opener].Parameters):
//
//	layout=symfony             SymfonyLayout; the default is layout=hash
//	fences=no                  NoFences
//	namespace=TEXT             Namespace
//	schema=NAME                InSchema
//	loss-delay=DURATION        LossDelay
//	session-timeout=DURATION   SessionTimeout
//	max-holds=N                MaxHolds
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

func (t *target) add(o Option) { t.opts = append(t.opts, o) }

// parse reads padlock's own parameters from a URL.
func parse(u *url.URL, o Opener) (*target, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, invalid("the parameters of the URL cannot be read")
	case !slices.Contains(schemes, u.Scheme):
		return nil, invalid("the URL begins with %s:, not with %s:", schemes[0], u.Scheme)
	case u.Opaque != "" || u.Fragment != "":
		return nil, invalid("the URL has the form %s; in a password, # is written %%23", example)
	}
	rest := *u
	t := &target{u: &rest}
	for name, values := range query {
		read, ofDriver := parameters[name], slices.Contains(o.Parameters, name)
		switch {
		case read == nil && !ofDriver:
			return nil, invalid("there is no parameter %q; there are %s", name, strings.Join(knownParams(o), ", "))
		case len(values) != 1:
			return nil, invalid("the parameter %s is given more than once", name)
		case ofDriver:
			continue
		}
		if err := read(t, values[0]); err != nil {
			return nil, err
		}
		delete(query, name)
	}
	if _, both := u.User.Password(); both && t.password != nil {
		return nil, invalid("the password is in the URL and in a file; leave one of them out")
	}
	rest.RawQuery = query.Encode()
	if c, err := t.config(); err != nil {
		return nil, err
	} else if !c.noFences && c.schema == "" && strings.Trim(u.Path, "/") == "" {
		return nil, invalid("the URL names no database for the table of fences; write %s://HOST/DATABASE, or leave fences out (fences=no)", schemes[0])
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
	"fences": func(t *target, v string) error { return t.addIf("fences", v, "no", NoFences()) },
	"lazy":   func(t *target, v string) error { return t.addIf("lazy", v, "yes", Lazy()) },
	"namespace": func(t *target, v string) error {
		t.add(Namespace(v))
		return nil
	},
	"schema": func(t *target, v string) error {
		t.add(InSchema(v))
		_, err := fenceTable(v)
		return err
	},
	"loss-delay":      func(t *target, v string) error { return t.duration("loss-delay", v, LossDelay) },
	"session-timeout": func(t *target, v string) error { return t.duration("session-timeout", v, SessionTimeout) },
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
		t.password = func() (string, error) { return readPassword(v) }
		return nil
	},
}

// addIf checks that a parameter has the value yes or no. If the value equals addValue, addIf adds
// the option o.
func (t *target) addIf(name, value, addValue string, o Option) error {
	if value != "yes" && value != "no" {
		return invalid("%s: it is yes or no", name)
	}
	if value == addValue {
		t.add(o)
	}
	return nil
}

func (t *target) duration(name, value string, o func(time.Duration) Option) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		return invalid("%s: it is a duration such as 10s", name)
	}
	t.add(o(d))
	return nil
}

// knownParams lists the parameters that a URL may have.
func knownParams(o Opener) []string {
	names := slices.Clone(o.Parameters)
	for name := range parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
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
