package storeurl

import (
	"context"
	"net/url"

	"github.com/padlock-go/padlock/driver"
)

// A Scheme describes the URLs of one kind of store and opens them. A program passes those of its
// stores to package open:
//
//	store, err := open.Store(ctx, rawURL, open.Schemes(redisstore.Scheme()))
//
// Only Names, Help, Example and Open are required. No error contains a user, a password or the
// value of a parameter in Secrets.
type Scheme struct {
	Names     []string // the schemes of URLs, such as "redis" and "rediss"; the usual one comes first
	Help      string   // says in one line where the locks are kept
	Example   string   // a URL
	Secrets   []string // the parameters whose values are secret
	InProcess bool     // no other process sees the locks
	Composite bool     // each parameter "store" of the URL is the URL of a member

	Guarantees func() driver.Guarantees // the default promises; nil if there are none

	// Open opens a URL whose scheme is one of Names; ctx bounds only the opening. If the URL is
	// wrong, the error is driver.ErrInvalid and says what to write instead.
	Open func(ctx context.Context, u *url.URL, o Opening) (driver.Store, error)

	Symfony     []string                           // schemes of the DSNs of PHP's Symfony Lock with the same locks
	FromSymfony func(dsn string) (*url.URL, error) // translates such a DSN

	// Instead returns the URL, without a secret, for an address as other programs write it, or "".
	Instead func(text string) string

	// Servers returns the servers of a URL as HOST:PORT, or none if they are reached without a
	// network, and whether connections are encrypted.
	Servers func(u *url.URL) (addresses []string, encrypted bool)

	// Schema returns the statements that create, in order, what the store needs. It sends nothing.
	Schema func(u *url.URL) ([]string, error)
}

// Opening has settings of the program. A store ignores those that it has no use for. A parameter of
// the URL wins over every field but Lenient.
type Opening struct {
	StateDir   string // a directory for facts that later processes need, or ""; it need not exist
	Lazy       bool   // the store opens without connecting to its server
	Lenient    bool   // the store is only examined: it opens even if its server is down or has settings that it would refuse
	ForgetSoon bool   // the store may forget a free name after a minute

	// Member opens one member of a composite store.
	Member func(ctx context.Context, rawURL string, lazy bool) (driver.Store, error)
}
