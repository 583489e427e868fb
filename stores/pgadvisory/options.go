package pgadvisory

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
	keys     keyring
	schema   string
	password func() (string, error)
}

func defaults() config {
	return config{Config: advisory.Config{LossDelay: 10 * time.Second}, schema: "public"}
}

// NoFences turns fences off, so that the store needs no table and no privileges. A holder that has
// lost its connection may continue to write to the resource. Without fences, nothing prevents that.
// Without this option, every lock has a fence.
func NoFences() Option { return func(c *config) { c.NoFences = true } }

// SymfonyLayout uses the same locks as the PostgreSqlStore of PHP's Symfony, which locks the CRC-32
// of the name. Two names with the same CRC-32 exclude each other. Among 10,000 names, there are two
// such names with a probability of 1 %. Without it, PostgreSQL locks 64 bits of a hash of padlock's
// own.
func SymfonyLayout() Option { return func(c *config) { c.keys.layout = symfonyLayout } }

// NumberLayout makes each name the number that the server locks: the name "7" is the lock of
// pg_try_advisory_lock(7) in any other program. A name is a whole number of 64 bits in its usual
// form. For any other name, the methods return driver.ErrInvalid. Without it, a name may have any
// bytes.
func NumberLayout() Option { return func(c *config) { c.keys.layout = numberLayout } }

// Namespace separates the names from those of other namespaces in the same database: any text. The
// default is the empty text. With SymfonyLayout or NumberLayout, Open returns driver.ErrInvalid
// unless it is empty.
func Namespace(name string) Option { return func(c *config) { c.keys.namespace = name } }

// InSchema puts the table of fences into another schema. The default is public. Its name has
// letters, digits and underscores; otherwise Open returns driver.ErrInvalid.
func InSchema(name string) Option { return func(c *config) { c.schema = name } }

// LossDelay sets how long it may take until a holder notices that the server or the network no
// longer answers. The connection then counts as ended, and the holder loses its locks. The default
// is 10 s. The time is from 1 s to 1 h; otherwise Open returns driver.ErrInvalid. If TCP reports
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
	if err := c.Check(time.Second); err != nil {
		return err
	}
	if c.keys.layout != hashLayout && c.keys.namespace != "" {
		return storekit.Invalidf("Namespace: layout=symfony and layout=number have none; leave it out")
	}
	_, err := fenceTable(c.schema)
	return err
}

func (c *config) guarantees() driver.Guarantees {
	g := c.Promises("postgres-advisory")
	g.DeadWaiter = deadWaiter
	g.Hashed = c.keys.layout != numberLayout
	g.Shared, g.Promotion = true, driver.PromotionAtomic
	g.SharedFence = driver.PromiseYes
	if c.NoFences {
		g.SharedFence = driver.PromiseNo
	}
	g.Notes[0] = "All holds of a connection end when it ends; a crash of any server process ends all connections."
	switch c.keys.layout {
	case symfonyLayout:
		g.Notes = append(g.Notes, "Names whose CRC-32 is the same exclude each other.")
	case numberLayout:
		g.Notes = append(g.Notes, "A name is a whole number, which is the key of the lock.")
	}
	return g
}
