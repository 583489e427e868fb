package open

import (
	"context"
	"net/url"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/filestore"
	"github.com/padlock-go/padlock/memstore"
	"github.com/padlock-go/padlock/quorum"
)

// Option changes what Store does.
type Option func(*opener)

// Schemes adds kinds of stores, such as redisstore.Scheme(), to those that package open knows by
// itself. A later scheme replaces an earlier one of the same name.
func Schemes(schemes ...driver.Scheme) Option {
	return func(o *opener) { o.schemes = append(o.schemes, schemes...) }
}

// BetweenProcesses refuses a store that only one process can see, alone or as a member of a quorum.
func BetweenProcesses() Option { return func(o *opener) { o.betweenProcesses = true } }

// StateDir is a directory in which a store may remember its server from one process to the next.
// With it the restart guard of redisstore also protects programs that cron starts. The directory
// is made when it is needed.
func StateDir(dir string) Option { return func(o *opener) { o.opening.StateDir = dir } }

// Lazy opens a store without asking its server, which may be down. Then the first use of the store
// fails if the URL or the server is wrong. The members of a quorum: are always opened in this way.
func Lazy() Option { return func(o *opener) { o.opening.Lazy = true } }

// Lenient opens a store in order to examine it: even if its server is down, and even if the store
// would refuse the settings of its server. Do not use locks of such a store for work.
func Lenient() Option { return func(o *opener) { o.opening.Lenient = true } }

// Brief lets the store forget a free name after a minute. It is for tests, which use their names
// once.
func Brief() Option { return func(o *opener) { o.opening.Brief = true } }

// Store opens the store that a URL names, such as file:///var/lib/locks. A URL that begins with
// symfony+ is a DSN of PHP's Symfony Lock, and means the store and the layout that PHP uses.
//
// If the URL names no store, the error is driver.ErrInvalid and says what to write. Other errors
// are those of the store. No error repeats a user, a password or a parameter of the URL.
//
// Close the store, or the Locker that owns it. ctx bounds the opening only.
func Store(ctx context.Context, rawURL string, opts ...Option) (driver.Store, error) {
	return newOpener(opts).open(ctx, rawURL)
}

// Parse returns what a URL means: the URL itself, or the one that a DSN after symfony+ stands for,
// and the scheme that serves it. It opens nothing. The URL that it returns holds the password.
func Parse(rawURL string, opts ...Option) (*url.URL, driver.Scheme, error) {
	return newOpener(opts).parse(rawURL)
}

// Known returns the schemes that Store knows with these options, its own ones first.
func Known(opts ...Option) []driver.Scheme { return slices.Clone(newOpener(opts).schemes) }

// opener is one call of Store.
type opener struct {
	schemes          []driver.Scheme
	betweenProcesses bool
	opening          driver.Opening
	depth            int // of composite stores in composite stores
}

func newOpener(opts []Option) *opener {
	o := &opener{schemes: []driver.Scheme{
		filestore.Scheme(), memstore.Scheme(), quorum.MajorityScheme(), quorum.AllScheme(),
	}}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// scheme finds the scheme for URLs that begin with name.
func (o *opener) scheme(name string) (driver.Scheme, bool) {
	for _, s := range slices.Backward(o.schemes) {
		if slices.Contains(s.Names, name) {
			return s, true
		}
	}
	return driver.Scheme{}, false
}

// maxDepth bounds quorums in quorums. Two levels make sense (machines within data centres); more
// is a mistake in the URL.
const maxDepth = 4

func (o *opener) open(ctx context.Context, rawURL string) (driver.Store, error) {
	u, s, err := o.parse(rawURL)
	if err != nil {
		return nil, err
	}
	opening := o.opening
	switch {
	case s.InProcess && o.betweenProcesses:
		return nil, invalid("only one process can see locks in %s:; use a directory, as in file:///var/lib/locks", u.Scheme)
	case !s.Composite:
		return s.Open(ctx, u, opening)
	case o.depth >= maxDepth:
		return nil, invalid("the stores are nested more than %d deep", maxDepth)
	}
	if err := o.distinct(u.Query()["store"]); err != nil {
		return nil, err
	}
	opening.Member = func(ctx context.Context, rawURL string, lazy bool) (driver.Store, error) {
		inner := *o
		inner.depth++
		inner.opening.Lazy = lazy
		return inner.open(ctx, rawURL)
	}
	return s.Open(ctx, u, opening)
}
