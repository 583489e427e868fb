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

// Config says what is known about a store before it has a connection. New checks none of the fields
// and returns no error for one; the store that makes the Config checks what its users give.
type Config struct {
	// Guarantees is required.
	Guarantees driver.Guarantees
	// MaxHolds is how many holds the store may have at once. They are spread evenly over the
	// connections, and each connection may have at least one; so 0 or less is no error.
	MaxHolds int
	// Keep says how long a row stays in the table of fences: 24 hours if it is 0, and for ever if
	// it is less. It should be at least 65 minutes, which nothing checks; see the function Keep.
	Keep time.Duration
	// SweepNever is for a store that is opened only to be examined.
	SweepNever bool
	// CheckName, if not nil, returns ErrInvalid for names that have no key.
	CheckName func(name string) error
}

// Store keeps locks that end with their connection. It is safe for concurrent use. It implements
// driver.Store, driver.Waiter, driver.FenceRaiser and the Inspect of driver.Admin, and has no other
// methods, because the stores for a server embed it. A dialect finds its other functions in this
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
	if keep := keepFor(s.cfg.Keep); err == nil && keep > 0 && !s.cfg.SweepNever {
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
