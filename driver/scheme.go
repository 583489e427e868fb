package driver

import (
	"context"
	"net/url"
)

// A Scheme describes the URLs of one kind of store and opens them. The package of each store
// exports its own, and a program passes those that it wants to package open:
//
//	store, err := open.Store(ctx, rawURL, open.Schemes(redisstore.Scheme()))
//
// There is no registry, so a program links only the clients that it names. Only Names, Help,
// Example and Open are required. No function of a Scheme returns an error that repeats a user, a
// password or the value of a parameter in Secrets.
type Scheme struct {
	// Names are the URL schemes that the store serves, such as "redis" and "rediss". The usual
	// one comes first.
	Names []string
	// Help says in one line where the locks are kept.
	Help string
	// Example is a URL of the store as a user would write it.
	Example string
	// Secrets names the parameters of the URL whose values are secret. The password of the URL
	// itself is always secret.
	Secrets []string
	// InProcess means that no other process sees the locks.
	InProcess bool
	// Composite means that the store is made of other stores, which the parameters "store" of
	// its URL name.
	Composite bool

	// Guarantees returns what the store promises unless its URL says otherwise. It is nil if
	// that depends on the URL alone, as it does for a composite store.
	Guarantees func() Guarantees
	// Open opens the store of a URL whose scheme is one of Names. ctx bounds the opening only.
	// ErrInvalid means that the URL is wrong and says what to write instead.
	Open func(ctx context.Context, u *url.URL, o Opening) (Store, error)

	// Symfony lists the schemes of DSNs of PHP's Symfony Lock whose locks the store shares, and
	// FromSymfony translates such a DSN to a URL of the store.
	Symfony     []string
	FromSymfony func(dsn string) (*url.URL, error)
	// Instead returns what to write instead of a text in another program's spelling, or "" if
	// text is not meant for this store. The result must not repeat a secret.
	Instead func(text string) string

	// Servers returns the addresses of the servers that a URL names, as HOST:PORT, and whether
	// the connections to them are encrypted. It is nil for a store without servers; it returns
	// no addresses if the server is reached without a network.
	Servers func(u *url.URL) (addresses []string, encrypted bool)
	// At returns the URL of the same store with its only server at another address, where a
	// proxy listens. Certificates are still checked against the host in u. It returns nil if the
	// server may name others, as a cluster does, because clients would bypass the proxy.
	At func(u *url.URL, address string) *url.URL

	// Schema returns the statements that make what the store at u needs on its server, in order,
	// without asking the server. It is nil for a store that needs nothing.
	Schema func(u *url.URL) ([]string, error)
	// Upgrade brings what an older padlock made there to the version of this program, and makes
	// what is missing. from and to are the versions before and after; from is 0 if there was
	// nothing. ErrUnavailable means that there is a version that this program does not know. It is
	// nil where Schema is nil.
	Upgrade func(ctx context.Context, u *url.URL) (from, to int, err error)
}

// Opening tells a store what the program that opens it knows and the URL need not say. A store
// ignores what does not concern it. A parameter of the URL that says otherwise wins, except over
// Lenient.
type Opening struct {
	// StateDir is a directory in which the store may remember its servers from one process to
	// the next. It is empty if there is none, and it need not exist yet.
	StateDir string
	// Lazy means that the store opens without asking its server, which may be down.
	Lazy bool
	// Lenient means that the store is opened to be examined: it opens even if its server is down
	// or has settings that the store refuses.
	Lenient bool
	// ForgetSoon means that the names of the locks are never used again, as in a test. The store
	// may then forget a free name after a minute.
	ForgetSoon bool
	// Member opens one member of a composite store. lazy is Lazy for that member.
	Member func(ctx context.Context, rawURL string, lazy bool) (Store, error)
}
