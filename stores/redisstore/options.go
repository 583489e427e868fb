package redisstore

import (
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Option is a setting for Open and FromURL.
type Option func(*config)

type config struct {
	strings bool
	fences  bool
	prefix  string
	foreign bool
	alone   bool
	maxTTL  *time.Duration // nil if MaxTTL was not given; see longestTTL
	keep    time.Duration
	guard   Guard
	runIDs  RunIDs
	evicts  bool
	durable bool
	lazy    bool
	clock   driver.Clock
}

// Guard says in which processes the restart guard acts. A server that has restarted may have lost
// locks whose holders are still working. The guard then refuses new locks (driver.ErrUnavailable)
// until every lease that was granted before the restart has certainly ended.
type Guard int

const (
	// GuardKnown makes a process refuse locks after a restart if the process has seen the server
	// before the restart, or if it shares RunIDs with such a process, or if it cannot read its
	// RunIDs. Any other process cannot know of the restart, and grants locks at once, even if the
	// server has just started.
	GuardKnown Guard = iota
	// GuardStrict makes every process refuse locks whenever the server has been running for only a
	// short time, even if nobody has seen a restart.
	GuardStrict
	// GuardOff turns the guard off.
	GuardOff
)

const (
	// DefaultMaxTTL is the longest lease if neither MaxTTL nor Foreign is given. So after a restart
	// the restart guard refuses locks for less than a minute.
	DefaultMaxTTL = driver.DefaultMaxTTL
	// ForeignMaxTTL is the longest lease with Foreign, if MaxTTL is not given. PHP's Symfony takes
	// locks for 300 s by default, and the restart guard must wait for them too.
	ForeignMaxTTL = 5 * time.Minute
	// DefaultFenceKeep is how long the fence of a free name is kept, unless FenceKeep sets another
	// time. If the server's clock is set back by no more than this time, fences still do not
	// decrease. A mistake about the time zone or summer time sets a clock back by an hour.
	DefaultFenceKeep = 65 * time.Minute
)

// PlainStrings keeps a lock as a string (SET NX PX, compare and delete), as redsync and others do,
// instead of Symfony's sorted set. There is no shared mode then. Every program that uses a name
// must keep it in the same way. Without it, a lock is a sorted set.
func PlainStrings() Option { return func(c *config) { c.strings = true } }

// NoFences turns fences off. Then a free name needs no memory after a minute, but nothing stops the
// late write of a holder that was paused for longer than its lease. Without NoFences, every lock
// has a fence.
func NoFences() Option { return func(c *config) { c.fences = false } }

// FenceKeep sets how long the fence of a name is kept, from 1 minute to 720 hours; otherwise Open
// returns driver.ErrInvalid. The default is DefaultFenceKeep, 65 minutes. The store keeps the fence
// for d after the end of the last lease, or after the time in the fence if that is later. (A fence
// is a time on the server's clock.) So fences never decrease unless the clock is set back by more
// than d. A name takes about 310 bytes until its fence is forgotten; docs/stores/redis.md has the
// formula.
func FenceKeep(d time.Duration) Option { return func(c *config) { c.keep = d } }

// Prefix puts p before every key. Other programs that share the names must do the same. The default
// is no prefix. A prefix has at most 256 bytes and does not begin with "padlock:", and a { in it
// has a } after it, with something between them; otherwise Open returns driver.ErrInvalid.
func Prefix(p string) Option { return func(c *config) { c.prefix = p } }

// Foreign is for names that padlock shares with programs that poll, such as PHP's. Without Foreign,
// a program that polls may never get a name that padlock's processes hand over to each other. With
// Foreign, padlock uses a name for about a second, and then leaves it free for 130 ms. PHP's
// Symfony tries more often than that, so it can take the name.
//
// While another program holds the name, padlock's first waiter tries every 25 ms.
func Foreign() Option { return func(c *config) { c.foreign = true } }

// OnlyPadlock says that no other program uses these names. Only then can the store know that a
// lease ran out and that nobody has taken the name since (driver.ErrExpired). Without this option,
// the store assumes that other programs may have taken the name.
func OnlyPadlock() Option { return func(c *config) { c.alone = true } }

// MaxTTL sets the longest lease, from 100 ms to 24 hours; otherwise Open returns driver.ErrInvalid.
// The default is DefaultMaxTTL, or ForeignMaxTTL with Foreign. After a restart of the server, the
// restart guard waits for the longest lease. So all programs that use the same names must have the
// same MaxTTL. Cool-downs may last longer: the guard does not wait for them, because
// nobody works in that time.
func MaxTTL(d time.Duration) Option { return func(c *config) { c.maxTTL = &d } }

// RestartGuard chooses the processes in which the restart guard acts. The default is GuardKnown.
// For a Guard that does not exist, Open returns driver.ErrInvalid. The guard never acts on a server
// with appendfsync=always, since that server keeps its locks.
func RestartGuard(g Guard) Option { return func(c *config) { c.guard = g } }

// RememberRunIDs lets the restart guard notice a restart of the server that happened before this
// process began, if an earlier process has used the server. See RunIDDir. Without it, or if r is
// nil, the ids are remembered in this process only.
func RememberRunIDs(r RunIDs) Option { return func(c *config) { c.runIDs = r } }

// AllowEviction accepts a server that evicts keys when its memory is full, even keys of locks that
// are held. Without it, Open returns driver.ErrUnavailable for such a server.
func AllowEviction() Option { return func(c *config) { c.evicts = true } }

// Durable makes the store refuse a server that does not write each change to disk before it replies
// (appendonly yes, appendfsync always). Other servers lose locks in a crash. Without it, the store
// accepts them.
func Durable() Option { return func(c *config) { c.durable = true } }

// Lazy makes Open return without a connection to the server. The first use connects. So a member of
// a quorum may be down from the start. Without it, Open connects and checks the server.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// WithClock sets the clock that waiting and the restart guard use. The default is
// driver.SystemClock, which nil stands for too. Leases end by the server's clock.
func WithClock(clock driver.Clock) Option { return func(c *config) { c.clock = clock } }

func defaults() config {
	return config{fences: true, keep: DefaultFenceKeep}
}

func (c *config) longestTTL() time.Duration {
	switch {
	case c.maxTTL != nil:
		return *c.maxTTL
	case c.foreign:
		return ForeignMaxTTL
	}
	return DefaultMaxTTL
}

func (c *config) check() error {
	switch {
	case c.longestTTL() < driver.MinTTL || c.longestTTL() > driver.MaxTTL:
		return storekit.Invalidf("max-ttl: it is %v, allowed are %v to %v", c.longestTTL(), driver.MinTTL, driver.MaxTTL)
	case c.fences && (c.keep < time.Minute || c.keep > 30*24*time.Hour):
		return storekit.Invalidf("fence-keep: it is %v, allowed are 1m to 720h", c.keep)
	case c.guard < GuardKnown || c.guard > GuardOff:
		return storekit.Invalidf("restart-guard: there is no Guard %d; use GuardKnown, GuardStrict or GuardOff", c.guard)
	}
	return checkPrefix(c.prefix)
}

func (c *config) guarantees() driver.Guarantees {
	g := driver.Guarantees{
		Store: "redis", SharedFence: driver.PromiseYes, SurvivesRestart: driver.PromisePartly, SafeEviction: driver.PromisePartly,
		Fence: driver.FenceDurable, MaxTTL: c.longestTTL(), Lease: true, Shared: true, Promotion: driver.PromotionAtomic,
		FIFO: true, CoolDown: true, SlotsAtOnce: mostTaken, Lacks: c.lacks(),
	}
	g.Notes = append(g.Notes, "The server's wall clock judges leases: setting it ends them, or keeps them, by as much.")
	if c.strings {
		g.Shared, g.Promotion = false, driver.PromotionNone
	}
	if !c.fences {
		g.Fence = driver.FenceNone
	}
	if !g.Shared || !c.fences {
		g.SharedFence = driver.PromiseNo
	}
	if c.durable {
		g.SurvivesRestart = driver.PromiseYes
	} else {
		g.Notes = append(g.Notes, "A restart keeps the locks that are on disk: all with appendfsync=always, otherwise not those of the last "+
			"seconds, or none. "+c.guard.note())
	}
	if c.evicts {
		g.SafeEviction = driver.PromiseNo
	} else {
		g.Notes = append(g.Notes, "The eviction policy is checked on every new connection; a change in between is not seen.")
	}
	g.Notes = append(g.Notes, "A failover may lose the holds of the last moment, since replicas lag behind.")
	return g
}

// lacks returns the abilities that would save no request, or would need a guess.
func (c *config) lacks() driver.Ability {
	lacks := driver.AbilitySamePlace
	if c.foreign {
		lacks |= driver.AbilityPasser | driver.AbilitySlotTaker
	}
	return lacks
}

func (g Guard) note() string {
	return [...]string{
		"After a restart, processes that knew the server before get no lock until all earlier leases have ended.",
		"After a restart, no process gets a lock until all earlier leases have ended.",
		"Nothing is done about locks that a restart has lost.",
	}[g]
}
