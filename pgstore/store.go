package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
)

// Store keeps locks as advisory locks of a PostgreSQL server. It is safe for concurrent use.
type Store struct {
	cfg      config
	server   *pgx.ConnConfig
	promises driver.Guarantees
	sql      statements
	pool     pool
	holds    holds

	work    sync.WaitGroup
	ending  sync.Mutex // guards closed, and additions to work
	closed  bool
	closing context.Context
	end     context.CancelFunc

	prepared sync.Mutex
	ready    bool // the table of fences exists; guarded by prepared
	sweeps   bool // a goroutine sweeps the table; guarded by prepared
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
	s.closing, s.end = context.WithCancel(context.Background())
	s.pool.perConn, s.pool.work, s.pool.ctx = max(1, s.cfg.maxHolds/holdConns), &s.work, s.closing
	d := &s.pool.dialer
	d.server, d.cfg, d.live, d.second = &s.server.Config, &s.cfg, s.pool.live, d.open
	if s.cfg.lazy {
		return s, nil
	}
	if _, err := do(ctx, s, func() (struct{}, error) { return struct{}{}, s.prepare() }); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare checks the server, and creates the table of fences if it is missing.
func (s *Store) prepare() error {
	s.prepared.Lock()
	defer s.prepared.Unlock()
	if s.ready {
		return nil
	}
	c, err := s.pool.any()
	if err != nil {
		return err
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
		s.work.Go(s.sweeper(keep).background)
	}
	return err
}

func (s *Store) sweeper(keep time.Duration) *sweeper {
	return &sweeper{sql: s.sql.sweep, keep: keep, live: s.pool.live, connect: s.pool.dialer.connect, ctx: s.closing}
}

// prepareAgain creates the table of fences again.
func (s *Store) prepareAgain() error {
	s.prepared.Lock()
	s.ready = false
	s.prepared.Unlock()
	return s.prepare()
}

// do runs op, which sends statements. It returns early if ctx ends, or after patience. op then
// continues, because a statement that was sent cannot be cancelled without ending its connection.
func do[T any](ctx context.Context, s *Store, op func() (T, error)) (T, error) {
	var zero T
	if err := s.begin(ctx); err != nil {
		return zero, err
	}
	if ctx.Done() == nil { // only the limit of a statement can end op
		defer s.work.Done()
		v, err := op()
		return v, s.afterClose(err)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer s.work.Done()
		v, err := op()
		done <- result{v, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, s.afterClose(r.err)
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %w", driver.ErrUncertain, ctx.Err())
	case <-timer.C:
		return zero, fmt.Errorf("%w: the server is silent", driver.ErrUncertain)
	}
}

// begin counts an operation, so that Close waits for it.
func (s *Store) begin(ctx context.Context) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.work.Add(1)
	return nil
}

// afterClose returns ErrClosed if Close is the reason for err, and err otherwise.
func (s *Store) afterClose(err error) error {
	if err != nil && s.closing.Err() != nil && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

// Close ends the connections. All holds end with them.
func (s *Store) Close() error {
	s.ending.Lock()
	s.closed = true
	s.ending.Unlock()
	s.end()
	s.pool.close()
	s.work.Wait()
	return nil
}

// Guarantees implements driver.Store.
func (s *Store) Guarantees() driver.Guarantees { return s.promises }

// Location implements driver.Locator. It returns the number that the server locks: 64 bits of a
// hash, or 32 bits with SymfonyLayout.
func (s *Store) Location(name string) (string, error) {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return "", err
	}
	return strconv.FormatInt(s.cfg.keys.lock(name), 10), nil
}

// SamePlace implements driver.SamePlacer. It compares the identifiers of the servers, or their
// addresses.
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
