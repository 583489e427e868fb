package mysqladvisory

import (
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	advisory.Config
	schema string
	ownsDB bool
}

func defaults() config {
	return config{Config: advisory.Config{LossDelay: 10 * time.Second}}
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
// is 10 s. The time is from 2 s to 1 h; otherwise Open returns driver.ErrInvalid. If TCP reports
// the end, the holder learns of it within 0.1 s. The server keeps the locks of a silent process,
// for example one that was stopped, for twice the LossDelay.
func LossDelay(d time.Duration) Option { return func(c *config) { c.LossDelay = d } }

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
	_, err := fenceTable(c.schema)
	return err
}

func (c *config) guarantees() driver.Guarantees {
	g := c.Promises("mysql-advisory")
	g.DeadWaiter = deadWaiter
	g.Notes = append(g.Notes,
		"A lock excludes only the clients of one server: Galera clusters and read-only servers are refused.",
		"A proxy that shares sessions between clients breaks the locks; it is refused if it is noticed.",
		"MySQL is untested; the tests run with MariaDB 10.11.",
	)
	return g
}
