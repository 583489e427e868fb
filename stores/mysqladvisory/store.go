package mysqladvisory

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// Store keeps locks as named locks of a MariaDB or MySQL server. It is safe for concurrent use.
type Store struct {
	cfg      config
	promises driver.Guarantees
	pool     pool
	holds    heldTokens

	calls calls.Calls

	preparing sync.Mutex
	ready     atomic.Pointer[layout] // nil until the server was checked
}

// A layout has the facts that the store learns when it checks the server.
type layout struct {
	keys keyring
	sql  statements
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Inspector
	driver.Lister
	driver.FenceRaiser
	driver.Reporter
	driver.SamePlacer
} = (*Store)(nil)

// Open returns a store on the server of a pool. ctx limits only the opening. With fences, Open
// creates the table of Schema if it is missing.
//
// The store takes up to 13 connections out of the pool. It closes them after use and never gives
// them back. Close does not close the pool.
//
// Open returns driver.ErrInvalid if the pool allows fewer than 13 connections, if the server is too
// old, or if it belongs to a Galera cluster. Open also returns driver.ErrInvalid if it detects a
// proxy that shares sessions between clients.
func Open(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	s := &Store{cfg: defaults()}
	for _, o := range opts {
		o(&s.cfg)
	}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	if most := db.Stats().MaxOpenConnections; most > 0 && most < allConns {
		return nil, invalid("the pool has at most %d connections; the store needs up to %d: raise SetMaxOpenConns", most, allConns)
	}
	s.promises = s.cfg.guarantees()
	s.holds = newHolds()
	s.calls.Open()
	s.pool.perConn, s.pool.work, s.pool.ctx = max(1, s.cfg.maxHolds/holdConns), &s.calls.Work, s.calls.Closing
	d := &s.pool.dialer
	d.db, d.cfg, d.live = db, &s.cfg, s.pool.live
	if s.cfg.lazy {
		return s, nil
	}
	if _, err := calls.Do(ctx, &s.calls, s.prepare); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare checks the server, and creates the table of fences if it is missing.
func (s *Store) prepare() (*layout, error) {
	if l := s.ready.Load(); l != nil {
		return l, nil
	}
	c, err := s.pool.anyConn() // without the mutex, so that all callers wait for one connection
	if err != nil {
		return nil, err
	}
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if l := s.ready.Load(); l != nil {
		return l, nil
	}
	database := s.cfg.schema
	if database == "" {
		database = *s.pool.dialer.database.Load()
	}
	l := &layout{keys: keyring{s.cfg.symfony, s.cfg.namespace, database}}
	if !s.cfg.noFences {
		if database == "" {
			return nil, invalid("the connection has no database for the table of fences; name one, or leave fences out (NoFences, fences=no)")
		}
		if l.sql.table, err = fenceTable(database); err == nil {
			err = s.useTable(c, l)
		}
	}
	if err != nil {
		return nil, err
	}
	s.ready.Store(l)
	return l, nil
}

// useTable makes the table of fences if it is missing, and starts the goroutine that sweeps it.
func (s *Store) useTable(c *conn, l *layout) error {
	version, err := versionOf(c, &l.sql)
	if err == nil && version == 0 {
		err = makeTable(c, l.keys.database)
	}
	if keep := s.cfg.keepFor(); err == nil && keep > 0 && !s.cfg.lenient {
		s.calls.Work.Go(s.sweeper(l, keep).background) // prepare succeeds only once, so there is one sweeper
	}
	return err
}

func (s *Store) sweeper(l *layout, keep time.Duration) *sweeper {
	return &sweeper{sql: l.sql, keep: keep, live: s.pool.live, connect: s.pool.dialer.connect, ctx: s.calls.Closing}
}

// Close ends the connections of the store. All holds end with them.
func (s *Store) Close() error {
	first := s.calls.End()
	s.pool.closeAll()
	s.calls.Work.Wait()
	if first && s.cfg.ownsDB {
		return s.pool.dialer.db.Close()
	}
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// SamePlace implements driver.SamePlacer. It compares the servers if both stores know theirs, and
// the pools otherwise.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	mine, theirs := s.pool.dialer.place.Load(), o.pool.dialer.place.Load()
	if mine != nil && theirs != nil {
		return *mine == *theirs
	}
	return s.pool.dialer.db == o.pool.dialer.db
}
