package mysqladvisory

import (
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	advisory.Config
	schema         string
	sessionTimeout time.Duration
	ownsDB         bool
}

func defaults() config {
	return config{Config: advisory.Config{LossDelay: 5 * time.Second, MaxHolds: 2000}, sessionTimeout: 30 * time.Second}
}

// NoFences turns fences off. The store then needs no table and no privileges. But a holder that has
// lost its connection may continue to write to the resource, and nothing prevents it. Other
// processes see only the host of a holder. Without it, every lock has a fence.
func NoFences() Option { return func(c *config) { c.NoFences = true } }

// InSchema sets the database that contains the table of fences. The default is the database of the
// connection. Programs that compare fences must have one table. The name has letters, digits, _, -
// and $; otherwise Open returns driver.ErrInvalid.
func InSchema(database string) Option { return func(c *config) { c.schema = database } }

// LossDelay sets the longest time until a holder learns that its connection has ended. The default
// is 5 s. The time is from 2 s to 1 h; otherwise Open returns driver.ErrInvalid. The store pings
// the server if a connection with holds was silent for a fifth of the LossDelay.
func LossDelay(d time.Duration) Option { return func(c *config) { c.LossDelay = d } }

// SessionTimeout sets the time after which the server frees the locks of a silent process, for
// example one that was stopped or whose machine died. The default is 30 s. It is a whole number of
// seconds, at least twice the LossDelay and at most 24 h; otherwise Open returns driver.ErrInvalid.
func SessionTimeout(d time.Duration) Option { return func(c *config) { c.sessionTimeout = d } }

// MaxHolds sets how many holds the store may have at once. The default is 2,000. Further calls of
// Acquire return driver.ErrUnavailable. The store rounds the number down to a multiple of 4, but
// not below 4. The number is at least 1; otherwise Open returns driver.ErrInvalid.
func MaxHolds(n int) Option { return func(c *config) { c.MaxHolds = n } }

// Keep sets how long the row of a name stays in the table of fences. The time counts from the
// name's last fence. The default is 24 hours. The time is at least 65 minutes: less counts as 65
// minutes, and there is no error. With 0 or less, no row is ever removed. One of the processes that
// share the table removes old rows in the background, at most 500 a second.
func Keep(d time.Duration) Option { return func(c *config) { c.Config.Keep = advisory.Keep(d) } }

// Lazy opens the store without a request to the server, which may be down. Without it, Open
// connects and checks the server.
func Lazy() Option { return func(c *config) { c.Lazy = true } }

func (c *config) check() error {
	if err := c.Check(2 * time.Second); err != nil {
		return err
	}
	if c.sessionTimeout < 2*c.LossDelay || c.sessionTimeout > 24*time.Hour || c.sessionTimeout%time.Second != 0 {
		return storekit.Invalidf("SessionTimeout is %v; it is whole seconds, at least twice the LossDelay (%v) and at most 24 h", c.sessionTimeout, c.LossDelay)
	}
	_, err := fenceTable(c.schema)
	return err
}

// pingEvery is how long a connection with holds may be silent before the store pings the server.
func (c *config) pingEvery() time.Duration { return c.LossDelay / 5 }

// limit is how long a statement may take, unless it waits for a lock. When a connection is silent,
// the store pings the server after at most 0.3 × LossDelay. The ping takes at most 0.6 × LossDelay.
// So the store knows within the LossDelay that a connection has ended. limit is less than
// driver.MaxSilence.
func (c *config) limit() time.Duration { return min(c.LossDelay*3/5, 4*time.Second) }

func (c *config) guarantees() driver.Guarantees {
	g := c.Promises("mysql-advisory", c.sessionTimeout)
	g.DeadWaiter = deadWaiter
	g.Notes = append(g.Notes,
		"A lock excludes only the clients of one server: Galera clusters and read-only servers are refused.",
		"A proxy that shares sessions between clients breaks the locks; it is refused if it is noticed.",
		"MySQL is untested; the tests run with MariaDB 10.11.",
	)
	return g
}
