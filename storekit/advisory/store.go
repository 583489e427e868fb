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

// Check returns driver.ErrInvalid for a LossDelay below least or above an hour. Open does not call
// it.
func (c *Config) Check(least time.Duration) error {
	if c.LossDelay < least || c.LossDelay > time.Hour {
		return storekit.Invalidf("LossDelay is %v; it is %.0f s to 1 h", c.LossDelay, least.Seconds())
	}
	return nil
}

// pingEvery is how long a connection may be silent before the store asks the server whether it is
// still there. Together with lookEvery and Limit it is at most the LossDelay, from one second on.
func (c *Config) pingEvery() time.Duration { return c.LossDelay / 4 }

// Limit is how long a statement may take, unless it waits for a lock. It is less than
// driver.MaxSilence.
func (c *Config) Limit() time.Duration { return min(c.LossDelay*3/5, 4*time.Second) }

// SessionTimeout is how long a session may be silent before the server ends it and frees its locks.
// By then, the client has given its locks up, unless it was stopped. It is a number of whole
// seconds.
func (c *Config) SessionTimeout() time.Duration {
	return (2*c.LossDelay + time.Second - 1).Truncate(time.Second)
}

// Promises returns what every store of this package promises.
func (c *Config) Promises(store string) driver.Guarantees {
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
			"The server frees the locks of a process that is stopped, or whose machine died, after " + c.SessionTimeout().String() + ".",
			"Of the waiters of one process, 8 at once have a place in the queue. If there are more, they take turns, and a waiter that gives up its place comes to the end.",
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
	s.holds = heldTokens[C]{byID: map[storekit.HoldID]*hold[C]{}, byKey: map[string][]*hold[C]{}}
	s.calls.Open()
	p := &s.pool
	p.connect, p.work, p.ctx, p.seats = s.connect, &s.calls.Work, s.calls.Closing, make(chan struct{}, waitConns)
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
		err = s.dialect.MakeTable(c)
	}
	if keep := keepFor(s.cfg.Keep); err == nil && keep > 0 && !s.cfg.Lenient {
		s.calls.Work.Go(s.sweeper(keep).background)
	}
	return s.failure(err)
}

// version returns the version of the table, or 0 if there is none. A table without the row of the
// version has version 1. For a table of a newer padlock, version returns an error.
func (s *Store[C]) version(c C) (int, error) {
	n, found, err := s.dialect.Fence(c, s.dialect.VersionKey())
	noTable, _ := s.dialect.Lacks(err)
	switch {
	case noTable:
		return 0, nil
	case err == nil && !found:
		return 1, nil
	case err == nil && n != TableVersion:
		err = fmt.Errorf("%w: a newer padlock has made the table of fences: it has version %d and this padlock knows version %d; install the newest padlock of all programs that share it",
			driver.ErrUnavailable, n, TableVersion)
	}
	return int(n), err
}

// failure is like storekit.Failure. It also adds advice to an error about the table of fences.
func (s *Store[C]) failure(err error) error {
	switch table, rights := s.dialect.Lacks(err); {
	case table:
		err = fmt.Errorf("%w: the table of fences is missing; make it with the SQL of Schema, or leave fences out: %w", driver.ErrUnavailable, err)
	case rights:
		err = fmt.Errorf("%w: the table of fences is missing, or this user may not use it: run the SQL of Schema as another user and grant SELECT, INSERT and UPDATE on it, or leave fences out (fences=no): %w", driver.ErrUnavailable, err)
	}
	return storekit.Failure(err)
}

// WithTable calls f, which runs a statement about the table of fences. If the server has lost the
// table, WithTable makes it again and repeats the call.
func WithTable[C Session](d Table[C], c C, f func() error) error {
	err := f()
	if missing, _ := d.Lacks(err); missing {
		if err = d.MakeTable(c); err == nil {
			err = f()
		}
	}
	return err
}

// Ask runs statements that take no lock, on a connection of the store. It neither checks the server
// nor makes the table of fences. The function f returns the errors of its statements.
func Ask[C Session, T any](ctx context.Context, s *Store[C], f func(c C) (T, error)) (T, error) {
	return storekit.Do(ctx, &s.calls, func() (out T, err error) {
		c, err := s.pool.anyConn()
		if err == nil {
			out, err = f(c)
		}
		return out, s.failure(err)
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
