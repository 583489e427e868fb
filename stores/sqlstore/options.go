package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Option changes what Open does.
type Option func(*config)

type config struct {
	schema string
	ownsDB bool
	clock  driver.Clock
	keep   time.Duration // 0: defaultKeep; negative: for ever

	lazy    bool // no request before the first call
	lenient bool // accepts every server, so that Status can examine it

	listener Listener
}

// InSchema puts the tables into another schema. The default is public on PostgreSQL, the database
// of the connection on MySQL, and main on SQLite. The name has letters, digits, _ and -; otherwise
// Open returns driver.ErrInvalid.
func InSchema(name string) Option { return func(c *config) { c.schema = name } }

// Notify makes PostgreSQL's NOTIFY wake the waiters. While somebody waits, l has one extra
// connection open for that. Without this option, or if l is nil, waiters poll. NOTIFY does not work
// through a pooler in transaction mode.
func Notify(l Listener) Option { return func(c *config) { c.listener = l } }

// Lazy opens the store without a request to the server, which may be down. The first call checks
// the server and the tables. Without it, Open does that.
func Lazy() Option { return func(c *config) { c.lazy = true } }

// WithClock sets the clock that measures waits. The default is driver.SystemClock, which nil stands
// for too. Leases always follow the server's clock.
func WithClock(c driver.Clock) Option { return func(cfg *config) { cfg.clock = c } }

// promised returns what a store promises on an engine.
func promised(e Engine) driver.Guarantees {
	return driver.Guarantees{
		Store:            strings.ToLower(e.String()),
		SurvivesRestart:  driver.PromisePartly,
		SurvivesFailover: driver.PromiseNo,
		SafeClockJump:    driver.PromiseNo,
		SafeEviction:     driver.PromiseYes,
		Fence:            driver.FenceDurable,
		SharedFence:      driver.PromiseYes,
		Lease:            true,
		Shared:           true,
		Promotion:        driver.PromotionAtomic,
		FIFO:             true,
		CoolDown:         true,
		Lacks:            driver.AbilitySamePlace,
		Notes: []string{
			"A restart keeps the locks if the database writes each commit to disk before it answers.",
			"A failover to a replica keeps them only if replication is synchronous.",
		},
	}
}

// Open returns a store that keeps its locks in tables of db. It creates the tables if they do not
// exist. ctx limits only the opening, which ends after 10 seconds in any case. Close leaves db
// open.
func Open(ctx context.Context, db *sql.DB, e Engine, opts ...Option) (*Store, error) {
	d := dialects[e]
	if d == nil {
		return nil, fmt.Errorf("%w: there is no engine %v", driver.ErrInvalid, e)
	}
	s := &Store{engine: e, promises: promised(e)}
	storekit.Apply(&s.cfg, opts)
	s.clock = cmp.Or(s.cfg.clock, driver.SystemClock())
	if n := db.Stats().MaxOpenConnections; n > 0 && n < d.minPool {
		return nil, storekit.Invalidf("the pool has %d connection and needs %d, since a transaction that checks a lock must not keep it from being renewed; raise pool= in the URL or SetMaxOpenConns", n, d.minPool)
	}
	t, err := tablesIn(e, s.cfg.schema)
	if err != nil {
		return nil, err
	}
	s.rows = table{db: &sqlpool.Pool{DB: db, SQLite: e == SQLite}, dialect: d, tables: t, sql: newStatements(d, t)}
	s.rows.make = func(ctx context.Context) error { return s.prepare(ctx, true) }
	switch {
	case s.cfg.listener != nil:
		s.local.channel = newChannel()
	case canWatch(e, db):
		s.cfg.listener = fileWatch{s}
	}
	s.calls.Open()
	if s.cfg.lazy {
		return s, nil
	}
	ctx, cancel := dbms.BoundOpening(ctx)
	defer cancel()
	if err := s.check(ctx); err != nil {
		s.calls.End()
		return nil, err
	}
	return s, nil
}
