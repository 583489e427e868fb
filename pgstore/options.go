package pgstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	keys      keyring
	noFences  bool
	schema    string
	lossDelay time.Duration
	lazy      bool
	lenient   bool
	poolerOK  bool
	maxHolds  int
	password  func() (string, error)
}

func defaults() config {
	return config{schema: "public", lossDelay: 10 * time.Second, maxHolds: 2000}
}

// NoFences leaves fences out, so that the store needs no table and no rights. Nothing protects a
// resource from a holder that lost its connection and goes on then.
func NoFences() Option { return func(c *config) { c.noFences = true } }

// SymfonyLayout takes the locks that PHP's Symfony takes with its PostgreSqlStore: the CRC-32 of
// the name. Two of about 10,000 names share such a number with a probability of 1 %, and then
// exclude each other.
func SymfonyLayout() Option { return func(c *config) { c.keys.symfony = true } }

// Namespace keeps the names apart from those of other namespaces in the same database. Symfony's
// layout has none.
func Namespace(name string) Option { return func(c *config) { c.keys.namespace = name } }

// InSchema puts the table of fences into a schema other than public.
func InSchema(name string) Option { return func(c *config) { c.schema = name } }

// LossDelay sets how late a holder may learn that its connection ended, if the server or the
// network fell silent; 10 s is the default, and 1 s the least. An end that TCP reports is noticed
// at once. The server keeps the locks of a silent process for longer than that.
func LossDelay(d time.Duration) Option { return func(c *config) { c.lossDelay = d } }

// MaxHolds sets how many holds the store may have at once; 2,000 is the default. A server with the
// usual settings has room for about 6,400 locks of all kinds and sessions.
func MaxHolds(n int) Option { return func(c *config) { c.maxHolds = n } }

// Lazy opens the store without asking the server, which may be down.
func Lazy() Option { return func(c *config) { c.lazy = true } }

func (c *config) check() error {
	switch {
	case c.lossDelay < time.Second || c.lossDelay > time.Hour:
		return invalid("LossDelay is %v; it is 1 s to 1 h", c.lossDelay)
	case c.maxHolds < 1:
		return invalid("MaxHolds is %d; it is at least 1", c.maxHolds)
	case c.keys.symfony && c.keys.namespace != "":
		return invalid("Namespace: Symfony's layout has none; leave it out")
	}
	_, err := fenceTable(c.schema)
	return err
}

// pingEvery is how long a connection is silent before the store asks whether it lives.
func (c *config) pingEvery() time.Duration { return c.lossDelay / 3 }

// limit is how long a statement may take, unless it waits for a lock. It is below
// driver.MaxSilence.
func (c *config) limit() time.Duration { return min(c.lossDelay/2, 4*time.Second) }

func (c *config) guarantees() driver.Guarantees {
	g := driver.Guarantees{
		Store:         "postgres-advisory",
		SafeClockJump: driver.Yes,
		SafeEviction:  driver.Yes,
		Bound:         driver.ToConnection,
		Fence:         driver.DurableFence,
		SharedFence:   driver.Yes,
		LossDelay:     c.lossDelay,
		Shared:        true,
		Promotion:     driver.Atomic,
		Notes: []string{
			"All holds of a connection end when it ends; a crash of any server process ends all connections.",
			"A process that was stopped keeps its holds until its connection ends.",
		},
	}
	if c.noFences {
		g.Fence, g.SharedFence = driver.NoFence, driver.No
	}
	if c.keys.symfony {
		g.Notes = append(g.Notes, "Names whose CRC-32 is the same exclude each other.")
	}
	return g
}
