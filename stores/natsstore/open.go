package natsstore

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes the URLs of NATS for package open. [FromURL] lists these URLs.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:   form.Schemes,
		Help:    "a key-value bucket of NATS JetStream",
		Example: example,
		Guarantees: func() driver.Guarantees {
			o := options
			o.Where = "nats" // any: each URL names a place
			return register.New(&bucket{}, o).Guarantees()
		},
		Open:    storeurl.Opens(FromURL, register.Lazy()),
		Instead: correctURL,
		Servers: servers, At: at,
		Schema: schema, Upgrade: upgrade,
	}
}

// FromURL opens the store that a URL names:
//
//	nats://[USER:PASSWORD@ or TOKEN@]HOST[:PORT][,HOST[:PORT]…]/BUCKET[/PREFIX]
//
// The command padlock schema makes the bucket. The URL may have these parameters:
//
//	creds=FILE           a file with a JWT and its key, as the tool nsc makes it
//	password-file=FILE   the password; read again for each connection
//	tls=yes              an encrypted connection, even if the server does not want one
//	ca=FILE              the authority that signed the certificate of the server
//	cert=FILE, key=FILE  the certificate of this client, and its key
//	server-name=HOST     the name in the certificate of the server, instead of the address
//	clock=server         Config.ServerClock
//	skew=DURATION        register.Skew, with clock=server
//	replicas=N           of the bucket, from 1 to 5; for padlock schema only
//	lazy=yes             register.Lazy
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx bounds only the opening. No error contains a password or a token.
func FromURL(ctx context.Context, u *url.URL, opts ...register.Option) (*register.Store, error) {
	r, c, err := config(u)
	if err != nil {
		return nil, err
	}
	t, b, err := connect(c, append(r.Opts, opts...))
	if err != nil {
		return nil, err
	}
	b.password = r.Password
	return register.Open(ctx, b, t.Options, t.Lazy)
}

// Open opens a store. Unless the store is lazy, Open connects to a server, and sends three
// requests, which show that the bucket is there.
func Open(ctx context.Context, c Config, opts ...register.Option) (*register.Store, error) {
	t, b, err := connect(c, opts)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, b, t.Options, t.Lazy)
}
