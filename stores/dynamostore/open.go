package dynamostore

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs of DynamoDB for package open. [FromURL] lists these URLs.
func Scheme() storeurl.Scheme {
	s := kind.Scheme()
	s.Schema = schema
	return s
}

// FromURL opens the store that a URL names:
//
//	dynamodb://TABLE[/PREFIX]
//
// The command padlock schema prints the commands that make the table. The access key, and what the URL does not say, come
// from where the tools of AWS find them. The URL may have these parameters:
//
//	region=NAME      Config.Region
//	endpoint=URL     Config.Endpoint
//	layout=symfony   Config.SymfonyLayout
//	skew=DURATION    register.Skew
//	lazy=yes         register.Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening.
func FromURL(ctx context.Context, u *url.URL, opts ...register.Option) (*register.Store, error) {
	return kind.FromURL(ctx, u, opts...)
}

// Open opens a store. Unless the store is lazy, Open sends one request, which shows that the table
// is there.
func Open(ctx context.Context, c Config, opts ...register.Option) (*register.Store, error) {
	t := &register.Target{Options: kind.Options}
	storekit.Apply(t, opts)
	there, err := open(c, &t.Options)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, there, t.Options, t.Lazy)
}
