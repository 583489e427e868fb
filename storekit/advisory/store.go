package advisory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// TableVersion is the version of the tables of fences. The row of the version has it as its fence.
const TableVersion = 1

// Config says what is known about a store before it has a connection. New and Open check none of
// the fields; Check returns an error for some.
type Config struct {
	// Guarantees is required; see [Config.Promises].
	Guarantees driver.Guarantees
	// LossDelay is the longest time until a holder learns that its connection has ended. It is
	// required, and at most 1 h; otherwise Check returns driver.ErrInvalid.
	LossDelay time.Duration
	// NoFences leaves the fences and their table out. Without it, every lock has a fence.
	NoFences bool
	// MaxHolds is how many holds the store may have at once. It is required, and at least 1;
	// otherwise Check returns driver.ErrInvalid. They are spread evenly over the connections, and
	// each connection may have at least one.
	MaxHolds int
	// Keep says how long a row stays in the table of fences: 24 hours if it is 0, and for ever if
	// it is less. It should be at least 65 minutes; less is no error, see the function Keep.
	Keep time.Duration
	// Lazy lets Open send nothing. Without it, Open checks the server.
	Lazy bool
	// Lenient is for a store that is opened only to be examined. Without it, the store sweeps the
	// table.
	Lenient bool
	// CheckName, if not nil, returns ErrInvalid for names that have no key.
	CheckName func(name string) error
}

// Check returns driver.ErrInvalid for a LossDelay below least or above an hour, and for a MaxHolds
// below 1. Open does not call it.
func (c *Config) Check(least time.Duration) error {
	switch {
	case c.LossDelay < least || c.LossDelay > time.Hour:
		return storekit.Invalidf("LossDelay is %v; it is %.0f s to 1 h", c.LossDelay, least.Seconds())
	case c.MaxHolds < 1:
		return storekit.Invalidf("MaxHolds is %d; it is at least 1", c.MaxHolds)
	}
	return nil
}

// Promises returns what every store of this package promises. frees is the time after which the
// server frees the locks of a silent process.
func (c *Config) Promises(store string, frees time.Duration) driver.Guarantees {
	g := driver.Guarantees{
		Store:         store,
		SafeClockJump: driver.PromiseYes,
		SafeEviction:  driver.PromiseYes,
		Bound:         driver.BoundToConnection,
		Fence:         driver.FenceDurable,
		LossDelay:     c.LossDelay,
		Lacks:         driver.AbilityBreak | driver.AbilityStoreID,
		Notes: []string{
			"All holds of a connection end when it ends.",
			"The server frees the locks of a process that is stopped, or whose machine died, after " + frees.String() + ".",
		},
	}
	if c.NoFences {
		g.Fence = driver.FenceNone
		g.Lacks |= driver.AbilityList // the names stand in the table of fences
	}
	return g
}

// Store keeps locks that end with their connection. It is safe for concurrent use. It implements
// driver.Store, driver.Waiter, driver.FenceRaiser, driver.Places and driver.Admin without List. The
// stores for a server embed it, so everything that only a dialect needs is a function of this
// package.
type Store[C Session] struct {
	dialect Dialect[C]
	sharer  Sharer[C] // nil if the locks cannot be shared
	cfg     Config
	fences  bool
	pool    pool[C]
	holds   heldTokens[C]

	calls storekit.Calls

	preparing sync.Mutex
	ready     atomic.Bool // the server was checked, and the table of fences exists
}

// Open returns a store. Unless it is lazy, it checks the server, and makes the table of fences if
// it is missing.
func Open[C Session](ctx context.Context, d Dialect[C], cfg Config) (*Store[C], error) {
	s := New(d, cfg)
	if cfg.Lazy {
		return s, nil
	}
	if err := Prepare(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New returns a store. It sends nothing; see [Prepare].
func New[C Session](d Dialect[C], cfg Config) *Store[C] {
	s := &Store[C]{dialect: d, cfg: cfg, fences: cfg.Guarantees.Fence != driver.FenceNone}
	if !s.fences {
		s.cfg.Guarantees.Lacks |= driver.AbilityFenceRaiser
	}
	s.sharer, _ = d.(Sharer[C])
	s.holds = heldTokens[C]{byID: map[id]*hold[C]{}, byKey: map[string][]*hold[C]{}}
	s.calls.Open()
	p := &s.pool
	p.connect, p.perConn, p.work, p.ctx = d.Connect, max(1, cfg.MaxHolds/holdConns), &s.calls.Work, s.calls.Closing
	return s
}

// Prepare checks the server, and makes the table of fences if it is missing. A store that was not
// prepared does that in its first call.
func Prepare[C Session](ctx context.Context, s *Store[C]) error {
	_, err := storekit.Do(ctx, &s.calls, func() (struct{}, error) { return struct{}{}, s.prepare() })
	return err
}

func (s *Store[C]) prepare() error {
	if s.ready.Load() {
		return nil
	}
	c, err := s.pool.anyConn() // without the mutex, so that all callers wait for one connection
	if err != nil {
		return err
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.ready.Load() {
		return nil
	}
	if s.fences {
		if err := s.useTable(c); err != nil {
			return err
		}
	}
	s.ready.Store(true)
	return nil
}

// useTable makes the table of fences if it is missing, and starts the goroutine that sweeps it.
// prepare succeeds only once, so there is one sweeper.
func (s *Store[C]) useTable(c C) error {
	version, err := s.version(c)
	if err == nil && version == 0 {
		err = storekit.Failure(s.dialect.MakeTable(c, false))
	}
	if keep := keepFor(s.cfg.Keep); err == nil && keep > 0 && !s.cfg.Lenient {
		s.calls.Work.Go(s.sweeper(keep).background)
	}
	return err
}

// version returns the version of the table, or 0 if there is none. It returns an error for a table
// of a newer padlock.
func (s *Store[C]) version(c C) (int, error) {
	n, err := s.dialect.Version(c)
	if err == nil && n != 0 && n != TableVersion {
		err = fmt.Errorf("%w: the table of fences has version %d and this padlock knows version %d; install the newest padlock of all programs that share it",
			driver.ErrUnavailable, n, TableVersion)
	}
	return n, storekit.Failure(err)
}

// Upgrade makes the table of fences if it is missing. If the table has no version, Upgrade writes
// it. It returns the versions before and after, and 0 for no table.
func Upgrade[C Session](ctx context.Context, s *Store[C]) (from, to int, err error) {
	if !s.fences {
		return TableVersion, TableVersion, nil
	}
	from, err = Ask(ctx, s, func(c C) (int, error) {
		from, err := s.version(c)
		if err != nil {
			return from, err
		}
		return from, s.dialect.MakeTable(c, from > 0)
	})
	return from, TableVersion, err
}

// Ask runs statements that take no lock, on a connection of the store. It neither checks the server
// nor makes the table of fences. The function f returns the errors of its statements.
func Ask[C Session, T any](ctx context.Context, s *Store[C], f func(c C) (T, error)) (T, error) {
	return storekit.Do(ctx, &s.calls, func() (out T, err error) {
		c, err := s.pool.anyConn()
		if err == nil {
			out, err = f(c)
		}
		return out, storekit.Failure(err)
	})
}

// AskReady is Ask for a server that was checked, with its table of fences.
func AskReady[C Session, T any](ctx context.Context, s *Store[C], f func(c C) (T, error)) (T, error) {
	if err := Prepare(ctx, s); err != nil {
		var none T
		return none, err
	}
	return Ask(ctx, s, f)
}

// Begin registers a call of the dialect's own, which must call the function end at its end.
func Begin[C Session](ctx context.Context, s *Store[C]) (end func(), err error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	return s.calls.Work.Done, nil
}

// Close ends the connections. All holds end with them.
func (s *Store[C]) Close() error {
	s.calls.End()
	s.pool.closeAll()
	s.calls.Work.Wait()
	return nil
}

// Guarantees implements driver.Store.
func (s *Store[C]) Guarantees() driver.Guarantees { return s.cfg.Guarantees }

// CheckName returns ErrInvalid for a name that no lock can have.
func CheckName[C Session](s *Store[C], name string) error {
	err := driver.CheckName(name, &s.cfg.Guarantees)
	if err == nil && s.cfg.CheckName != nil {
		err = s.cfg.CheckName(name)
	}
	return err
}

// Holding reports whether a hold of this store has the lock of a name.
func Holding[C Session](s *Store[C], name string) bool { return s.holds.has(s.dialect.Key(name), "") }

// The time that a row of the table of fences stays.
const (
	// minKeep is more than an hour, in case somebody sets the clock back to winter time.
	minKeep     = 65 * time.Minute
	defaultKeep = 24 * time.Hour
)

// Keep returns the Config.Keep for an option that the user gave: d, but at least 65 minutes. With 0
// or less, no row is removed.
func Keep(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return max(d, minKeep)
}

// keepFor returns how long a row stays: keep, or 24 hours if keep is 0. If it is less than 0, no
// row is removed.
func keepFor(keep time.Duration) time.Duration { return cmp.Or(keep, defaultKeep) }
