package s3store

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

const example = "s3://bucket/locks"

var schemes = []string{"s3"}

// Scheme describes the URLs of S3 for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:   schemes,
		Help:    "a bucket of Amazon S3, or of a service that speaks like it",
		Example: example,
		Guarantees: func() driver.Guarantees {
			c := config{skew: DefaultSkew, Config: Config{Prefix: "locks/"}}
			return register.New(nil, c.register()).Guarantees()
		},
		Open:    storeurl.Opens(FromURL, Lazy(), Lazy()),
		Servers: servers,
		At:      withAddress,
	}
}

// FromURL opens the store that a URL names:
//
//	s3://BUCKET[/PREFIX]
//
// A PREFIX without a slash at its end gets one. The access key, and what the URL does not say, come
// from where the tools of AWS find them. The URL may have these parameters:
//
//	region=NAME     Config.Region
//	endpoint=URL    Config.Endpoint
//	path-style=no   Config.HostStyle
//	skew=DURATION   Skew
//	lazy=yes        Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	if u.User != nil {
		return nil, storekit.Invalidf("the access key does not stand in the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws")
	}
	c := Config{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	return Open(ctx, c, append(r.Opts, opts...)...)
}

var form = storeurl.Form[Option]{
	Schemes: schemes, Example: example, Hosts: true,
	Params: map[string]storeurl.Param[Option]{
		"region":     text(func(c *config, v string) { c.Region = v }),
		"endpoint":   text(func(c *config, v string) { c.Endpoint = v }),
		"path-style": storeurl.IfNo[Option](func(c *config) { c.HostStyle = true }),
		"skew":       storeurl.Duration(Skew),
		"lazy":       storeurl.IfYes(Lazy()),
	},
}

// text reads a parameter that must not be empty.
func text(set func(c *config, value string)) storeurl.Param[Option] {
	return func(r *storeurl.Reading[Option], name, value string) error {
		if value == "" {
			return storekit.Invalidf("the parameter %s needs a value", name)
		}
		r.Add(func(c *config) { set(c, value) })
		return nil
	}
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
