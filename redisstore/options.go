package redisstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	strings  bool
	fences   bool
	prefix   string
	foreign  bool
	alone    bool
	maxTTL   time.Duration
	keep     time.Duration
	guard    Guard
	runIDs   RunIDs
	evicts   bool
	durable  bool
	replicas int
	patience time.Duration // with replicas
	lazy     bool
	clock    driver.Clock
}

// Guard says when a server that has restarted, and may have lost locks, gives
// no new ones until the longest lease of before has ended.
type Guard int

const (
	// GuardKnown: in every process that has seen the server under another run
	// id, this one or one that shares its RunIDs. A server that was just
	// started for a first try makes nobody wait.
	GuardKnown Guard = iota
	// GuardStrict: in every process, by the server's uptime.
	GuardStrict
	// GuardOff: never.
	GuardOff
)

const (
	// DefaultMaxTTL is the longest lease unless MaxTTL says otherwise.
	DefaultMaxTTL = 5 * time.Minute
	// DefaultFenceKeep is how long the fence of a free name is kept. It covers a
	// server's clock that is set back by an hour, as after a mistake about the time
	// zone or summer time, and some minutes.
	DefaultFenceKeep = 65 * time.Minute
)

// PlainStrings keeps a lock as a string key (SET NX PX, compare and delete),
// as redsync and the plain recipe do, instead of Symfony's sorted set. There is
// no shared mode then. Every program that uses a name must keep it in the same
// way.
func PlainStrings() Option { return func(c *config) { c.strings = true } }

// NoFences does without fences. That makes a hold cheaper, but then nothing stops
// the late write of a holder that was paused for longer than its lease. Together
// with PlainStrings it also leaves out who holds a name.
func NoFences() Option { return func(c *config) { c.fences = false } }

// FenceKeep sets how long the fence of a name is kept, instead of DefaultFenceKeep:
// until the server's clock is d past the fence (a time, and one in the future after
// Request.FenceAbove or RaiseFence) and past the end of the last lease. So no fence
// falls unless the clock is set back by more than d. A name costs about 310 bytes
// for that long; docs/stores/redis.md has the formula.
func FenceKeep(d time.Duration) Option { return func(c *config) { c.keep = d } }

// Prefix puts p before every key. PHP's side has to do the same.
func Prefix(p string) Option { return func(c *config) { c.prefix = p } }

// Foreign is for names that padlock shares with programs that poll, such as
// PHP's. When padlock has used a name for a second without a pause, it then leaves
// the name free for 130 ms, which is longer than Symfony sleeps between two tries;
// and while such a program holds the name, padlock's first waiter tries every
// 25 ms. Without Foreign, direct hand-over may starve a program that polls.
func Foreign() Option { return func(c *config) { c.foreign = true } }

// OnlyPadlock says that no other program uses these names. Then a lease that
// ran out can be told from one that somebody took (driver.ErrExpired).
func OnlyPadlock() Option { return func(c *config) { c.alone = true } }

// MaxTTL sets the longest lease and cool-down, instead of DefaultMaxTTL, up to
// 24 h. It is also how long the restart guard waits.
func MaxTTL(d time.Duration) Option { return func(c *config) { c.maxTTL = d } }

// RestartGuard sets when a server that has restarted gives no locks for a
// while. It never acts on a server with appendfsync=always, which keeps them.
func RestartGuard(g Guard) Option { return func(c *config) { c.guard = g } }

// RememberRunIDs makes the restart guard know what r remembers, also of
// servers that only earlier processes have seen. See RunIDDir.
func RememberRunIDs(r RunIDs) Option { return func(c *config) { c.runIDs = r } }

// AllowEviction accepts a server that drops keys to make room, and with them
// locks that are held.
func AllowEviction() Option { return func(c *config) { c.evicts = true } }

// Durable refuses a server that does not write each change to disk before it
// answers (appendonly yes, appendfsync always). On others the holds of a crash
// are lost.
func Durable() Option { return func(c *config) { c.durable = true } }

// Replicas makes every grant and renewal wait until n replicas have it, and
// give it up when they do not within patience (1 s if 0). That makes it less
// likely that a failover loses a lock, and no more.
func Replicas(n int, patience time.Duration) Option {
	return func(c *config) { c.replicas, c.patience = n, patience }
}

// Lazy makes Open return without asking the server. Then it is asked at the
// first use, and a member of a quorum may be down from the start.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// WithClock sets the clock by which waiting and the restart guard go, instead
// of driver.SystemClock. Leases are judged by the server.
func WithClock(clock driver.Clock) Option { return func(c *config) { c.clock = clock } }

func defaults() config {
	return config{fences: true, maxTTL: DefaultMaxTTL, keep: DefaultFenceKeep}
}

func (c *config) check() error {
	switch {
	case c.maxTTL < driver.MinTTL || c.maxTTL > driver.MaxTTL:
		return invalid("max-ttl: it is %v, allowed are %v to %v", c.maxTTL, driver.MinTTL, driver.MaxTTL)
	case c.fences && (c.keep < time.Minute || c.keep > 30*24*time.Hour):
		return invalid("fence-keep: it is %v, allowed are 1m to 720h", c.keep)
	case c.replicas < 0 || c.replicas > 100:
		return invalid("replicas: it is %d, allowed are 0 to 100", c.replicas)
	case c.patience < 0 || c.patience > 2*time.Second:
		return invalid("replicas: they are given %v, allowed are up to 2s", c.patience)
	}
	return checkPrefix(c.prefix)
}

func (c *config) guarantees() driver.Guarantees {
	g := driver.Guarantees{
		Store: "redis", SharedFence: driver.Yes, SurvivesRestart: driver.Partly, SafeEviction: driver.Partly,
		Fence: driver.DurableFence, MaxTTL: c.maxTTL, Lease: true, Shared: true, Promotion: driver.Atomic,
		FIFO: true, CoolDown: true,
	}
	g.Notes = append(g.Notes, "The server's wall clock judges leases: setting it ends them, or keeps them, by as much.")
	if c.strings {
		g.Shared, g.Promotion = false, driver.NoPromotion
	}
	if !c.fences {
		g.Fence = driver.NoFence
	}
	if !g.Shared || !c.fences {
		g.SharedFence = driver.No
	}
	if c.durable {
		g.SurvivesRestart = driver.Yes
	} else {
		g.Notes = append(g.Notes, "A restart keeps what is on disk: all with appendfsync=always, else not the last seconds, or nothing. "+c.guard.note())
	}
	if c.evicts {
		g.SafeEviction = driver.No
	} else {
		g.Notes = append(g.Notes, "The eviction policy is checked on every new connection; a change in between is not seen.")
	}
	if c.strings && !c.fences {
		g.Notes = append(g.Notes, "A newcomer may overtake those who wait in the moment in which a lease or a cool-down runs out.",
			"Who holds a name is not told.")
	}
	g.Notes = append(g.Notes, "A failover may lose the holds of the last moment, since replicas lag behind.")
	return g
}

func (g Guard) note() string {
	return [...]string{
		"After one, processes that knew the server before are given no lock until all leases of before have ended.",
		"After one, nobody is given a lock until all leases of before have ended.",
		"Nothing is done about locks that it lost.",
	}[g]
}
