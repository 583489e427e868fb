// Package storeurl reads the URLs of stores, so that all stores read them in one way: the same
// parameter means the same, a parameter is given once, a password file is read at each connect, and
// no error contains a password.
//
// A store describes its URLs in a [Form], and [Form.Read] reads a URL. It is for authors of stores
// that package open can open. Programs that use locks do not need it.
package storeurl

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Form says how the URLs of a store look. O is the type of the store's options.
type Form[O any] struct {
	Schemes []string // the usual one comes first
	Example string
	Params  map[string]Param[O]
	Others  []string // parameters of the client or driver, which Read leaves in Reading.URL
	Repeat  bool     // a parameter of Others may be given more than once
	Hosts   bool     // the URL must name a host
}

// A Param reads the value of a parameter.
type Param[O any] func(r *Reading[O], name, value string) error

// A Reading is a URL that Read has read.
type Reading[O any] struct {
	URL      url.URL // with the parameters of Others, and without the other ones
	Opts     []O
	Values   map[string]string      // of the parameters that Keep has read
	Password func() (string, error) // reads the password file; nil without one
}

// Read reads a URL. It opens no connection and no file. Every error is driver.ErrInvalid.
func (f *Form[O]) Read(u *url.URL) (*Reading[O], error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, Invalid("the parameters of the URL cannot be read")
	case !slices.Contains(f.Schemes, u.Scheme):
		return nil, Invalid("the URL begins with %s:, not with %s:", f.Schemes[0], u.Scheme)
	case u.Opaque != "" || u.Fragment != "" || f.Hosts && u.Host == "":
		return nil, Invalid("the URL has the form %s; in a password, # is written %%23", f.Example)
	}
	r := &Reading[O]{URL: *u, Values: make(map[string]string)}
	for name, values := range query {
		read, other := f.Params[name], slices.Contains(f.Others, name)
		switch {
		case read == nil && !other:
			return nil, Invalid("there is no parameter %q; there are %s", name, strings.Join(f.known(), ", "))
		case len(values) != 1 && !(other && f.Repeat):
			return nil, Invalid("the parameter %s is given more than once", name)
		case other:
			continue
		}
		if err := read(r, name, values[0]); err != nil {
			return nil, err
		}
		delete(query, name)
	}
	if _, both := u.User.Password(); both && r.Password != nil {
		return nil, Invalid("the password is in the URL and in a file; leave one of them out")
	}
	r.URL.RawQuery = query.Encode()
	return r, nil
}

func (f *Form[O]) known() []string {
	names := slices.Clone(f.Others)
	for name := range f.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Add adds an option.
func (r *Reading[O]) Add(o O) { r.Opts = append(r.Opts, o) }

// Credentials returns a function that returns the user and the password of the URL. It is nil if the
// URL has neither. If the password is in a file, the function reads the file whenever it is called.
func (r *Reading[O]) Credentials() (func(context.Context) (user, password string, err error), error) {
	user := r.URL.User.Username()
	password, _ := r.URL.User.Password()
	read := r.Password
	switch {
	case user == "" && (password != "" || read != nil):
		return nil, Invalid("there is a password without a user; write USER:PASSWORD@ or USER@")
	case user != "" && password == "" && read == nil:
		return nil, Invalid("the user has no password; write USER:PASSWORD@ or password-file=FILE")
	case read == nil:
		return Login(user, password), nil
	}
	return func(context.Context) (string, string, error) {
		password, err := read()
		return user, password, err
	}, nil
}

// Login returns a function that returns user and password, or nil if both are empty. A store keeps
// such a function instead of the texts, so that nothing which prints the store shows the password.
func Login(user, password string) func(context.Context) (user, password string, err error) {
	if user == "" && password == "" {
		return nil
	}
	return func(context.Context) (string, string, error) { return user, password, nil }
}

// IfYes reads yes or no, and adds o if the value is yes.
func IfYes[O any](o O) Param[O] { return yesNo("yes", o) }

// IfNo reads yes or no, and adds o if the value is no.
func IfNo[O any](o O) Param[O] { return yesNo("no", o) }

func yesNo[O any](when string, o O) Param[O] {
	return func(r *Reading[O], name, value string) error {
		return oneOf(r, name, value, "yes", "no", when, o)
	}
}

// OneOf reads usual or other, and adds o if the value is other.
func OneOf[O any](usual, other string, o O) Param[O] {
	return func(r *Reading[O], name, value string) error {
		return oneOf(r, name, value, usual, other, other, o)
	}
}

func oneOf[O any](r *Reading[O], name, value, a, b, when string, o O) error {
	if value != a && value != b {
		return Invalid("%s: it is %s or %s", name, a, b)
	}
	if value == when {
		r.Add(o)
	}
	return nil
}

// Text adds an option with the value.
func Text[O any](o func(string) O) Param[O] {
	return func(r *Reading[O], _, value string) error { r.Add(o(value)); return nil }
}

// Duration adds an option with a duration such as 10s. The option checks its range.
func Duration[O any](o func(time.Duration) O) Param[O] {
	return func(r *Reading[O], name, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return Invalid("%s: it is a duration such as 10s", name)
		}
		r.Add(o(d))
		return nil
	}
}

// Keep keeps the value in Reading.Values. The value must not be empty.
func Keep[O any](r *Reading[O], name, value string) error {
	if value == "" {
		return Invalid("the parameter %s needs a value", name)
	}
	r.Values[name] = value
	return nil
}

// Yes keeps the value in Reading.Values. The value must be yes or no.
func Yes[O any](r *Reading[O], name, value string) error {
	if value != "yes" && value != "no" {
		return Invalid("%s: it is yes or no", name)
	}
	return Keep(r, name, value)
}

// PasswordFile sets Reading.Password. The file is not opened before Reading.Password is called, so
// the password can change while the program runs, and a lazily opened store needs no file yet.
func PasswordFile[O any](r *Reading[O], name, value string) error {
	if value == "" {
		return Invalid("%s: write the path of a file", name)
	}
	r.Password = func() (string, error) { return ReadPassword(name, value) }
	return nil
}

// Address adds the usual port to a host that has none.
func Address(host, port string) (string, error) {
	if name, given, err := net.SplitHostPort(host); err == nil && given != "" {
		if name == "" {
			return "", Invalid("a host of the URL is not HOST or HOST:PORT")
		}
		return host, nil
	}
	name := strings.Trim(strings.TrimSuffix(host, ":"), "[]")
	if name == "" {
		return "", Invalid("a host of the URL is not HOST or HOST:PORT")
	}
	return net.JoinHostPort(name, port), nil
}

// Addresses splits the hosts of a URL at commas, and adds the usual port to those that have none.
func Addresses(hosts, port string) (all []string, err error) {
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := Address(host, port)
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// Opens returns a function for Scheme.Open. from is the FromURL of the store. lenient are
// the options that a store gets in addition to lazy if it is opened only to be examined.
func Opens[S driver.Store, O any](from func(context.Context, *url.URL, ...O) (S, error), lazy O, lenient ...O) func(context.Context, *url.URL, Opening) (driver.Store, error) {
	return func(ctx context.Context, u *url.URL, opening Opening) (driver.Store, error) {
		var opts []O
		if opening.Lazy && !u.Query().Has("lazy") || opening.Lenient {
			opts = append(opts, lazy)
		}
		if opening.Lenient {
			opts = append(opts, lenient...)
		}
		s, err := from(ctx, u, opts...)
		if err != nil {
			return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
		}
		return s, nil
	}
}
