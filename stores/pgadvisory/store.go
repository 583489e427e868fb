package pgadvisory

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// Store keeps locks as advisory locks of a PostgreSQL server. It is safe for concurrent use.
type Store struct {
	cfg      config
	server   *pgx.ConnConfig
	promises driver.Guarantees
	sql      statements
	pool     pool
	holds    heldTokens

	calls calls.Calls

	prepareMu sync.Mutex
	ready     bool // the table of fences exists; guarded by prepareMu
	sweeps    bool // a goroutine sweeps the table; guarded by prepareMu
}

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Inspector
	driver.Lister
	driver.FenceRaiser
	driver.Reporter
	driver.SamePlacer
	driver.Locator
} = (*Store)(nil)

// Open returns a store on the server that config names; pgx.ParseConfig returns such a config. ctx
// limits only the opening. With fences, Open creates the table of Schema if it is missing.
//
// It returns driver.ErrInvalid for a pooler in transaction mode, for a server that is too old, and
// for a configuration that lets an attacker on the network switch encryption off.
func Open(ctx context.Context, config *pgx.ConnConfig, opts ...Option) (*Store, error) {
	s := &Store{cfg: defaults(), server: config.Copy()}
	for _, o := range opts {
		o(&s.cfg)
	}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	if err := checkTLS(&config.Config); err != nil {
		return nil, err
	}
	s.promises = s.cfg.guarantees()
	s.sql = newStatements(&s.cfg)
	s.holds = newHolds()
	s.calls.Open()
	s.pool.perConn, s.pool.work, s.pool.ctx = max(1, s.cfg.maxHolds/holdConns), &s.calls.Work, s.calls.Closing
	d := &s.pool.dialer
	d.server, d.cfg, d.live, d.second = &s.server.Config, &s.cfg, s.pool.live, d.openConn
	if s.cfg.lazy {
		return s, nil
	}
	if _, err := calls.Do(ctx, &s.calls, func() (struct{}, error) { return struct{}{}, s.prepare() }); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare checks the server, and creates the table of fences if it is missing.
func (s *Store) prepare() error {
	s.prepareMu.Lock()
	ready := s.ready
	s.prepareMu.Unlock()
	if ready {
		return nil
	}
	c, err := s.pool.anyConn() // without the mutex, so that all callers wait for one connection
	if err != nil {
		return err
	}
	s.prepareMu.Lock()
	defer s.prepareMu.Unlock()
	if s.ready {
		return nil
	}
	if s.cfg.noFences {
		s.ready = true
		return nil
	}
	version, err := versionOf(c, &s.sql.fence)
	if err == nil && version == 0 {
		err = makeTable(c, s.sql.makeTable)
	}
	s.ready = err == nil
	if keep := s.cfg.keepFor(); s.ready && keep > 0 && !s.cfg.lenient && !s.sweeps {
		s.sweeps = true
		s.calls.Work.Go(s.sweeper(keep).background)
	}
	return err
}

func (s *Store) sweeper(keep time.Duration) *sweeper {
	return &sweeper{sql: s.sql.sweep, keep: keep, live: s.pool.live, connect: s.pool.dialer.connect, ctx: s.calls.Closing}
}

// prepareAgain creates the table of fences again.
func (s *Store) prepareAgain() error {
	s.prepareMu.Lock()
	s.ready = false
	s.prepareMu.Unlock()
	return s.prepare()
}

// Close ends the connections. All holds end with them.
func (s *Store) Close() error {
	s.calls.End()
	s.pool.closeAll()
	s.calls.Work.Wait()
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// Location implements driver.Locator. It returns the number that the server locks: 64 bits of a
// hash, or 32 bits with SymfonyLayout. With NumberLayout it is the name.
func (s *Store) Location(name string) (string, error) {
	if err := s.checkName(name); err != nil {
		return "", err
	}
	return strconv.FormatInt(s.cfg.keys.lockNumber(name), 10), nil
}

// SamePlace implements driver.SamePlacer. It compares the identifiers of the two servers if both
// are known, and otherwise their addresses.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	mine, theirs := s.pool.dialer.system.Load(), o.pool.dialer.system.Load()
	if mine != nil && theirs != nil {
		return mine == theirs
	}
	return s.server.Host == o.server.Host && s.server.Port == o.server.Port
}
