package symfony

import (
	"context"
	"database/sql"

	"github.com/padlock-go/padlock/internal/sqlpool"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Open returns a store that keeps its locks in a table of db. It creates the table if it does not
// exist. ctx limits only the opening, which ends after 10 seconds in any case. Close leaves db
// open.
func Open(ctx context.Context, db *sql.DB, e sqlstore.Engine, l Layout, opts ...Option) (*Store, error) {
	c, err := configure(e, l, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{engine: e, layout: l, cfg: c, promises: promised(e, l), db: &sqlpool.Pool{DB: db, SQLite: e == sqlstore.SQLite}, sql: newStatements(dialects[e], &c)}
	s.calls.Open()
	if c.lazy {
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

// check checks the server and makes the table. After the first success it does nothing.
func (s *Store) check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	if !s.cfg.lenient {
		if err := dbms.Examine(ctx, s.db, s.engine.String()); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}
