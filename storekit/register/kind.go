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
//	func Scheme() storeurl.Scheme { return kind.Scheme() }
//
// All kinds have these parameters:
//
//	endpoint=URL   another service than the usual one, such as http://localhost:9000
//	skew=DURATION  Clock.Skew; not with Clock.Observed
//	lazy=yes       open without a request to the service
type Kind struct {
	Options        // of every store, unless Connect changes them; Name is the scheme of the URLs
	Help    string // says in one line where the locks are kept
	Example string // a URL; if it has a host, every URL needs a host; if it has an endpoint, every URL needs that
	// Login says where the store finds its key or password, for the error about a URL with one.
	Login string
	// Params are the other parameters. Each has a text that is not empty.
	Params []string
	// Connect makes a register. It must send nothing. It may change t.Options.
	Connect func(t *Target) (Register, error)
	// Type is a register of the type that Connect makes, such as a nil pointer. It shows which
	// abilities the stores have, and nothing is called.
	Type Register
}

// A Target is what a URL says.
type Target struct {
	URL      *url.URL          // without parameters
	Path     string            // of the URL, without a slash at its beginning, and with one at its end unless it is empty
	Params   map[string]string // those of Kind.Params that the URL has
	Endpoint *url.URL          // http or https with a host and nothing else; nil without the parameter
	Options  Options           // those of the Kind, with Where and the Prefix of the URL
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
	params := map[string]storeurl.Param[Option]{
		"endpoint": storeurl.Keep[Option],
		"lazy":     storeurl.IfYes(Lazy()),
	}
	if !k.Clock.Observed {
		params["skew"] = storeurl.Duration(Skew)
	}
	for _, name := range k.Params {
		params[name] = storeurl.Keep[Option]
	}
	form := storeurl.Form[Option]{Schemes: []string{k.Name}, Example: k.Example, Hosts: usual.Host != "", Params: params}
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	t := &Target{URL: &r.URL, Path: strings.Trim(u.Path, "/"), Params: r.Values, Options: k.Options}
	if t.Path != "" {
		t.Path += "/"
	}
	t.Options.Where = k.Name + "://" + u.Host + "/"
	if t.Options.Keys != nil {
		t.Options.Prefix = t.Path
	} else {
		t.Options.Where += t.Path
	}
	if endpoint, given := r.Values["endpoint"]; given || usual.Query().Has("endpoint") {
		if t.Endpoint, err = ParseEndpoint(endpoint); err != nil {
			return nil, err
		}
		t.Options.Where += " at " + endpoint
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

// An Option changes how a store is opened.
type Option func(t *Target)

// Lazy opens the store without a request to the service, which may be down. Without it, wrong
// settings and a service that is down are errors of Open.
func Lazy() Option { return func(t *Target) { t.Lazy = true } }

// Skew says how far the clocks of two front ends of the service may differ, from 0 s to a minute;
// otherwise the error is driver.ErrInvalid. The default is that of the store, such as
// s3store.DefaultSkew. All processes that share locks must use the same value. The shortest lease
// is five times the sum of Skew and the grain of the clock.
func Skew(d time.Duration) Option { return func(t *Target) { t.Options.Clock.Skew = d } }

// FromURL opens the store that a URL names. opts are applied after the parameters of the URL.
func (k *Kind) FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	t, err := k.Read(u)
	if err != nil {
		return nil, err
	}
	for _, set := range opts {
		if set != nil {
			set(t)
		}
	}
	r, err := k.Connect(t)
	if err != nil {
		return nil, err
	}
	return Open(ctx, r, t.Options, t.Lazy)
}

// Scheme describes the kind to package open.
func (k *Kind) Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names: []string{k.Name}, Help: k.Help, Example: k.Example,
		Guarantees: k.guarantees,
		Open:       storeurl.Opens(k.FromURL, Lazy()),
		Servers:    servers,
	}
}

// guarantees returns the promises of a store with the usual settings.
func (k *Kind) guarantees() driver.Guarantees {
	o := k.Options
	o.Where = k.Name // any: each URL names a place
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
