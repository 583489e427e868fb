package register

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// A Kind describes the stores over one kind of register to package open. It reads their URLs, opens
// them, and says what they promise.
//
//	var kind = register.Kind{
//		Options: register.Options{Name: "bucket", Clock: register.Clock{Grain: time.Second}},
//		Example: "bucket://shop/locks", Connect: connect, Type: (*bucket)(nil),
//	}
//
//	func Scheme() driver.Scheme { return kind.Scheme() }
//
// All kinds have these parameters:
//
//	endpoint=URL   another service than the usual one, such as http://localhost:9000
//	skew=DURATION  Clock.Skew; not with Clock.Observed
//	lazy=yes       open without a request to the service
type Kind struct {
	Options        // of every store, unless Connect changes them; Name is the scheme of the URLs
	Help    string // says in one line where the locks are kept
	Example string // a URL; if it has a host or an endpoint, every URL needs one
	// Login says where the store finds its key or password, for the error about a URL with one.
	Login string
	// Params are the other parameters. Each has a text that is not empty.
	Params []string
	// Connect makes a register. It must send nothing. It may change t.Options.
	Connect func(t *Target) (Register, error)
	// Type is a register of the type that Connect makes, such as a nil pointer. It shows which
	// abilities the stores have, and nothing is called.
	Type Register

	// Schema and Upgrade are fields of driver.Scheme, if the service needs a table.
	Schema  func(u *url.URL) ([]string, error)
	Upgrade func(ctx context.Context, u *url.URL) (from, to int, err error)
}

// A Target is what a URL says.
type Target struct {
	URL      *url.URL          // without parameters
	Path     string            // of the URL, without a slash at its beginning, and with one at its end unless it is empty
	Params   map[string]string // those of Kind.Params that the URL has
	Endpoint *url.URL          // http or https with a host and nothing else; nil without the parameter
	Options  Options           // those of the Kind, with the Place and the Prefix of the URL
	Lazy     bool
}

// Read reads a URL. Every error is driver.ErrInvalid.
func (k *Kind) Read(u *url.URL) (*Target, error) {
	if u.User != nil {
		return nil, storekit.Invalidf("a key or a password does not stand in the URL: %s", k.Login)
	}
	usual, err := url.Parse(k.Example)
	if err != nil {
		return nil, err
	}
	params := map[string]storeurl.Param[func(*Target)]{
		"endpoint": storeurl.Keep[func(*Target)],
		"lazy":     storeurl.IfYes(func(t *Target) { t.Lazy = true }),
	}
	if !k.Clock.Observed {
		params["skew"] = storeurl.Duration(func(d time.Duration) func(*Target) { return func(t *Target) { t.Options.Clock.Skew = d } })
	}
	for _, name := range k.Params {
		params[name] = storeurl.Keep[func(*Target)]
	}
	form := storeurl.Form[func(*Target)]{Schemes: []string{k.Name}, Example: k.Example, Hosts: usual.Host != "", Params: params}
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	t := &Target{URL: &r.URL, Path: strings.Trim(u.Path, "/"), Params: r.Values, Options: k.Options}
	if t.Path != "" {
		t.Path += "/"
	}
	t.Options.Place = k.Name + "://" + u.Host + "/" + t.Path
	if t.Options.Keys != nil {
		t.Options.Prefix = t.Path
	}
	if endpoint, given := r.Values["endpoint"]; given || usual.Query().Has("endpoint") {
		if t.Endpoint, err = ParseEndpoint(endpoint); err != nil {
			return nil, err
		}
		t.Options.Place += " at " + endpoint
	}
	for _, set := range r.Opts {
		set(t)
	}
	return t, nil
}

// ParseEndpoint reads the URL of a service: http or https with a host and nothing else. Its error
// is driver.ErrInvalid.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, storekit.Invalidf("the endpoint: it is a URL such as https://service.example.com, without a path")
	}
	return u, nil
}

// Open opens the store that a URL names.
func (k *Kind) Open(ctx context.Context, u *url.URL) (*Store, error) { return k.open(ctx, u, false) }

func (k *Kind) open(ctx context.Context, u *url.URL, lazy bool) (*Store, error) {
	t, err := k.Read(u)
	if err != nil {
		return nil, err
	}
	r, err := k.Connect(t)
	if err != nil {
		return nil, err
	}
	return Open(ctx, r, t.Options, lazy || t.Lazy)
}

// Scheme describes the kind to package open.
func (k *Kind) Scheme() driver.Scheme {
	return driver.Scheme{
		Names: []string{k.Name}, Help: k.Help, Example: k.Example,
		Guarantees: k.guarantees,
		Open: func(ctx context.Context, u *url.URL, o driver.Opening) (driver.Store, error) {
			s, err := k.open(ctx, u, o.Lenient || o.Lazy && !u.Query().Has("lazy"))
			if err != nil {
				return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
			}
			return s, nil
		},
		Servers: servers, At: withAddress,
		Schema: k.Schema, Upgrade: k.Upgrade,
	}
}

// guarantees returns the promises of a store with the usual settings.
func (k *Kind) guarantees() driver.Guarantees {
	o := k.Options
	o.Place = k.Name // any: each URL names a place
	return o.guarantees(k.Type)
}

// servers returns the address of the endpoint.
func servers(u *url.URL) (addresses []string, encrypted bool) {
	there, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil || there.Host == "" {
		return nil, true
	}
	port := map[bool]string{true: "443", false: "80"}[there.Scheme == "https"]
	address, err := storeurl.Address(there.Host, port)
	if err != nil {
		return nil, there.Scheme == "https"
	}
	return []string{address}, there.Scheme == "https"
}

// withAddress returns a copy of u with another address for its endpoint, or nil if the connection
// is encrypted.
func withAddress(u *url.URL, address string) *url.URL {
	if addresses, encrypted := servers(u); encrypted || len(addresses) == 0 {
		return nil
	}
	there, query := *u, u.Query()
	query.Set("endpoint", "http://"+address)
	there.RawQuery = query.Encode()
	return &there
}
