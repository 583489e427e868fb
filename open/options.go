package open

import (
	"slices"

	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Option configures Store.
type Option func(*opener)

// Schemes adds kinds of stores, such as redisstore.Scheme(), to those that package open knows
// without options. A later scheme replaces an earlier one with the same name. Without it, memory,
// files and quorums can be opened. A URL with another scheme causes driver.ErrInvalid.
func Schemes(schemes ...storeurl.Scheme) Option {
	return func(o *opener) { o.schemes = append(o.schemes, schemes...) }
}

// BetweenProcesses makes Store refuse a store that only one process can see, with
// driver.ErrInvalid. It also refuses a quorum with such a member. Without it, such stores are
// opened.
func BetweenProcesses() Option { return func(o *opener) { o.betweenProcesses = true } }

// StateDir sets a directory in which a store keeps facts about its server for later processes. For
// example, redisstore uses the directory to notice that a Redis server was restarted and may have
// lost locks. A program that cron starts is a new process each time, so without a directory it does
// not notice restarts. The store makes the directory when it needs it. If that fails, there is no
// error, and the store remembers the facts in this process only. The default is no directory, which
// the empty text stands for.
func StateDir(dir string) Option { return func(o *opener) { o.opening.StateDir = dir } }

// Lazy opens a store without connecting to its server, which may be down. If the URL or the server
// is wrong, the first use of the store fails. A quorum always opens its members in this way.
// Without Lazy, Store checks that the server answers.
func Lazy() Option { return func(o *opener) { o.opening.Lazy = true } }

// Lenient opens a store in order to examine it. It opens the store even if its server is down, or
// has settings that the store would otherwise refuse. Do not rely on locks of such a store. Without
// Lenient, Store returns an error for such a server.
func Lenient() Option { return func(o *opener) { o.opening.Lenient = true } }

// ForgetSoon lets the store forget a free name after a minute. It is for tests, which use each name
// only once. Without it, redisstore keeps the fence of a free name for redisstore.DefaultFenceKeep.
// The other stores ignore ForgetSoon.
func ForgetSoon() Option { return func(o *opener) { o.opening.ForgetSoon = true } }

// opener has the options of one call of Store.
type opener struct {
	schemes          []storeurl.Scheme
	betweenProcesses bool
	opening          storeurl.Opening
	depth            int // how many composite stores this one is nested in
}

// scheme returns the scheme for URLs that begin with the given name and a colon.
func (o *opener) scheme(name string) (storeurl.Scheme, bool) {
	for _, s := range slices.Backward(o.schemes) {
		if slices.Contains(s.Names, name) {
			return s, true
		}
	}
	return storeurl.Scheme{}, false
}
