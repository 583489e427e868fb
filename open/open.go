package open

import (
	"context"
	"net/url"
	"slices"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/filestore"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// Store opens the store that a URL names, such as file:///var/lib/locks. If the URL begins with
// symfony+, the rest is a DSN of PHP's Symfony Lock. Store then opens the store that PHP would
// open, and keeps locks in the same form as PHP.
//
// If the URL names no store, the error is driver.ErrInvalid and says what to write. Other errors
// are those of the store. No error contains a user or a password from the URL, the value of a
// secret parameter, or the value of a parameter that padlock does not know.
//
// Close the store, or the Locker that owns it. ctx bounds only the opening.
func Store(ctx context.Context, rawURL string, opts ...Option) (driver.Store, error) {
	return newOpener(opts).open(ctx, rawURL)
}

// Parse returns the URL of the store that rawURL names, and the scheme that serves it. If rawURL is
// a DSN with "symfony+" before it, Parse translates the DSN. Otherwise it returns rawURL itself.
// Parse opens nothing. The returned URL contains the password.
func Parse(rawURL string, opts ...Option) (*url.URL, storeurl.Scheme, error) {
	return newOpener(opts).parse(rawURL)
}

// Known returns the schemes that Store knows with these options. The schemes that need no option
// come first.
func Known(opts ...Option) []storeurl.Scheme { return slices.Clone(newOpener(opts).schemes) }

// maxDepth bounds how deep quorums can be nested. Two levels are useful (machines within data
// centres). More than that is a mistake in the URL.
const maxDepth = 4

func (o *opener) open(ctx context.Context, rawURL string) (driver.Store, error) {
	u, s, err := o.parse(rawURL)
	if err != nil {
		return nil, err
	}
	opening := o.opening
	switch {
	case s.InProcess && o.betweenProcesses:
		return nil, storekit.Invalidf("only one process can see locks in %s:; use a directory, as in file:///var/lib/locks", u.Scheme)
	case !s.Composite:
		return s.Open(ctx, u, opening)
	case o.depth >= maxDepth:
		return nil, storekit.Invalidf("the stores are nested more than %d deep", maxDepth)
	}
	if err := o.distinct(u.Scheme, u.Query()["store"]); err != nil {
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

func newOpener(opts []Option) *opener {
	o := &opener{schemes: []storeurl.Scheme{
		filestore.Scheme(), memstore.Scheme(), quorum.MajorityScheme(), quorum.AllScheme(),
	}}
	storekit.Apply(o, opts)
	return o
}

// Redacted returns a URL in a form that may be shown, without user and password. Of the parameters
// it has those by which two stores on one server differ, such as prefix. Pass the same options as
// to Store. A DSN with "symfony+" before it is first translated to a URL.
func Redacted(rawURL string, opts ...Option) string { return newOpener(opts).redacted(rawURL) }
