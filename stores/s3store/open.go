package s3store

import (
	"context"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

var kind = register.Kind{
	Options: options("s3", `"00000000000000000000000000000000"`),
	Help:    "a bucket of Amazon S3, or of a service that speaks like it",
	Example: "s3://bucket/locks",
	Login:   "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws",
	Params:  []string{"region", "path-style"},
	Type:    &bucket{},
	Connect: func(t *register.Target) (register.Register, error) {
		c, err := config(t)
		if err != nil {
			return nil, err
		}
		return connect(c, &t.Options)
	},
}

// google is the kind of stores in Google Cloud Storage.
var google = register.Kind{
	Options: options("gs", "1"), // a generation is some 16 digits
	Help:    "a bucket of Google Cloud Storage",
	Example: "gs://bucket/locks",
	Login:   "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
	Type:    &bucket{},
	Connect: func(t *register.Target) (register.Register, error) {
		c, err := config(t)
		if err != nil {
			return nil, err
		}
		c.Service = ServiceGoogle
		return connect(c, &t.Options)
	},
}

// options returns what all services promise. No object has the version noVersion.
func options(scheme, noVersion string) register.Options {
	return register.Options{
		Name: scheme, Clock: register.Clock{Grain: time.Second, Skew: DefaultSkew},
		Keys: &storekit.ObjectKeys, MaxKey: 1024, NoVersion: noVersion,
		SurvivesRestart: driver.PromiseYes, SurvivesFailover: driver.PromiseYes,
	}
}

// Scheme describes the URLs of S3 for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme { return kind.Scheme() }

// GoogleScheme describes the URLs of Google Cloud Storage for package open.
func GoogleScheme() storeurl.Scheme { return google.Scheme() }

// FromURL opens the store that a URL names:
//
//	s3://BUCKET[/PREFIX]
//	gs://BUCKET[/PREFIX]
//
// A PREFIX without a slash at its end gets one. The access key, and what the URL does not say, come
// from where the tools of AWS or Google find them. The URL may have these parameters:
//
//	region=NAME     Config.Region; s3 only
//	endpoint=URL    Config.Endpoint
//	path-style=no   Config.HostStyle; s3 only
//	skew=DURATION   register.Skew
//	lazy=yes        register.Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...register.Option) (*register.Store, error) {
	if u.Scheme == google.Name {
		return google.FromURL(ctx, u, opts...)
	}
	return kind.FromURL(ctx, u, opts...)
}

// Open opens a store. Unless the store is lazy, Open checks that the service refuses a write whose
// condition is not met, also if two are sent at once; see register.Open.
func Open(ctx context.Context, c Config, opts ...register.Option) (*register.Store, error) {
	t := &register.Target{Options: kind.Options}
	if c.Service == ServiceGoogle {
		t.Options = google.Options
	}
	storekit.Apply(t, opts)
	b, err := connect(c, &t.Options)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, b, t.Options, t.Lazy)
}

// config returns what a URL says.
func config(t *register.Target) (Config, error) {
	c := Config{Bucket: t.URL.Host, Prefix: t.Path, Region: t.Params["region"]}
	switch t.Params["path-style"] {
	case "no":
		c.HostStyle = true
	case "", "yes":
	default:
		return c, storekit.Invalidf("path-style: it is yes or no")
	}
	if t.Endpoint != nil {
		c.Endpoint = t.Endpoint.String()
	}
	return c, nil
}
