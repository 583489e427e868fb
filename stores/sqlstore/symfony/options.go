package symfony

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// Layout says how the table spells the name of a lock. All programs that share locks must use the
// same layout. Programs with different layouts do not exclude each other.
type Layout int

const (
	// Symfony is the layout of Symfony 7.4 and later. A name of less than 64 bytes is stored as it
	// is, and a longer one as the hexadecimal SHA-256 of the name.
	Symfony Layout = iota + 1
	// Symfony73 is the layout of Symfony up to 7.3: every name is stored as its SHA-256.
	Symfony73
)

// String returns "symfony" or "symfony73", as the parameter layout of a URL spells it.
func (l Layout) String() string {
	switch l {
	case Symfony:
		return "symfony"
	case Symfony73:
		return "symfony73"
	}
	return fmt.Sprintf("Layout(%d)", int(l))
}

// Option changes what Open does.
type Option func(*config)

type config struct {
	table, id, token, expiration string

	ownsDB  bool
	lazy    bool // no request before the first call
	lenient bool // accepts every server, so that Status can examine it
}

// Table sets the name of the table, which is the option db_table in PHP. The default is lock_keys.
// A schema or database may come before the name, as in "locks.lock_keys". A name has letters,
// digits, _ and $, and begins with no digit; otherwise Open returns driver.ErrInvalid.
func Table(name string) Option { return func(c *config) { c.table = name } }

// Columns sets the names of the columns, which are the options db_id_col, db_token_col and
// db_expiration_col in PHP. The defaults are key_id, key_token and key_expiration. Each has the
// form of a table name; otherwise Open returns driver.ErrInvalid.
func Columns(id, token, expiration string) Option {
	return func(c *config) { c.id, c.token, c.expiration = id, token, expiration }
}

// Lazy opens the store without a request to the server, which may be down. The first call checks
// the server and the table. Without it, Open does that.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// identifier matches a name that SQL accepts without quotes. PHP writes the names without quotes,
// and so does this package. PostgreSQL then turns capital letters into small ones.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]*$`) })

// configure applies the options and checks them.
func configure(e sqlstore.Engine, l Layout, opts []Option) (config, error) {
	c := config{table: "lock_keys", id: "key_id", token: "key_token", expiration: "key_expiration"}
	storekit.Apply(&c, opts)
	if dialects[e] == nil {
		return c, storekit.Invalidf("there is no engine %v", e)
	}
	if l != Symfony && l != Symfony73 {
		return c, storekit.Invalidf("there is no layout %v; there are %v and %v", l, Symfony, Symfony73)
	}
	names := append(strings.SplitN(c.table, ".", 2), c.id, c.token, c.expiration)
	for _, n := range names {
		if !identifier().MatchString(n) {
			return c, storekit.Invalidf("%q cannot be the name of a table or column: it has letters, digits, _ and $, as PHP writes it without quotes", n)
		}
	}
	return c, nil
}

// minTTL is the shortest lease that PHP knows.
const minTTL = time.Second

// promised returns what a store promises on an engine.
func promised(e sqlstore.Engine, l Layout) driver.Guarantees {
	g := driver.Guarantees{
		Store:            strings.ToLower(e.String()),
		SurvivesRestart:  driver.PromisePartly,
		SurvivesFailover: driver.PromiseNo,
		SafeClockJump:    driver.PromiseNo,
		SafeEviction:     driver.PromiseYes,
		Fence:            driver.FenceNone,
		SharedFence:      driver.PromiseNo,
		Lease:            true,
		MinTTL:           minTTL,
		Hashed:           true,
		Lacks:            driver.AbilityStoreID | driver.AbilitySamePlace,
		Notes: []string{
			"The locks are shared with PHP's Symfony, whose table has no room for fences, shared locks and holders.",
			"Leases end at whole seconds of the server's clock, up to two seconds later than asked for.",
			"A restart keeps the locks if the database writes each commit to disk before it answers.",
			"A failover to a replica keeps them only if replication is synchronous.",
		},
	}
	if l == Symfony73 {
		g.Lacks |= driver.AbilityList // the table has hashes only
	}
	return g
}
