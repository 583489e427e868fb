package driver

import (
	"context"
	"net/url"
)

// A Scheme describes the URLs of one kind of store and opens them. The package of each store has a
// function that returns its Scheme. A program passes the Schemes of its stores to the package open:
//
//	store, err := open.Store(ctx, rawURL, open.Schemes(redisstore.Scheme()))
//
// There is no registry, so a program links only the clients that it names. Only Names, Help,
// Example and Open are required. The errors of a Scheme's functions must not contain a user, a
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
	// Composite means that the store is made of other stores. The URL names each of them in a
	// parameter "store".
	Composite bool

	// Guarantees returns what the store promises by default. Parameters of the URL may change the
	// promises. Guarantees is nil if there is no default, as for a composite store.
	Guarantees func() Guarantees
	// Open opens the store of a URL whose scheme is one of Names. ctx bounds only the opening. If
	// the URL is wrong, the error is ErrInvalid and tells the user what to write instead.
	Open func(ctx context.Context, u *url.URL, o Opening) (Store, error)

	// PHP's Symfony Lock writes the address of a store as a DSN, which has the form of a URL. The
	// field Symfony lists the schemes of the DSNs whose locks this store can share. FromSymfony
	// translates such a DSN to a URL of the store.
	Symfony     []string
	FromSymfony func(dsn string) (*url.URL, error)
	// Other programs may write the address of this kind of store in a form that is not a URL of
	// padlock. If a user gives padlock a text in such a form, the function Instead returns the URL
	// that the user must write. For any other text, Instead returns "". The result must not repeat
	// a secret.
	Instead func(text string) string

	// Servers returns the addresses of the servers that a URL names, as HOST:PORT, and whether the
	// connections to them are encrypted. It returns no addresses if the server is reached without a
	// network. Servers is nil for a store without servers.
	Servers func(u *url.URL) (addresses []string, encrypted bool)
	// At makes it possible to reach the server of the store through a proxy. The proxy listens at
	// address, and At returns the URL with which a client connects to the proxy. The certificate of
	// the server is still checked against the host in u. At returns nil for a server that tells its
	// clients the addresses of other servers, as a cluster does: the clients would bypass the
	// proxy.
	At func(u *url.URL, address string) *url.URL

	// Schema returns, in order, the statements that create what the store at u needs on its server.
	// It does not ask the server. Schema is nil for a store that needs nothing.
	Schema func(u *url.URL) ([]string, error)
	// Upgrade brings the tables on the server to the version of this program. It changes tables
	// that an older padlock created, and creates missing ones. It returns the versions before and
	// after. The version before is 0 if there was no table. ErrUnavailable means that the server
	// has a version that this program does not know. Upgrade is nil if Schema is nil.
	Upgrade func(ctx context.Context, u *url.URL) (from, to int, err error)
}

// Opening has settings that a store gets from the program instead of the URL. A store ignores the
// fields that it has no use for. If a parameter of the URL contradicts a field other than Lenient,
// the parameter wins. Lenient always applies.
type Opening struct {
	// StateDir is a directory in which the store may write what it knows about its servers, so that
	// later processes know it too. StateDir is empty if there is no such directory. The directory
	// need not exist yet.
	StateDir string
	// Lazy means that the store opens without connecting to its server, which may be down.
	Lazy bool
	// Lenient means that the store is opened only to be examined. It opens even if its server is
	// down or has settings that the store would otherwise refuse.
	Lenient bool
	// ForgetSoon means that the names of the locks are never used again, as in a test. So the store
	// may forget a free name after a minute.
	ForgetSoon bool
	// Member opens one member of a composite store. The argument lazy sets the field Lazy for that
	// member.
	Member func(ctx context.Context, rawURL string, lazy bool) (Store, error)
}
