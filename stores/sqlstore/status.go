package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Status implements driver.Reporter: it asks the server for the settings that matter for locks.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := dbms.Settings(ctx, s.rows.db, s.engine.String())
	if err == nil && s.engine == MySQL {
		found = append(found, s.tableEngine(ctx))
	}
	return found, err
}

// tableEngine finds out which engine of MySQL keeps the tables. Engines without transactions lock
// no rows, so CheckTx and LockTx would protect nothing.
func (s *Store) tableEngine(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "engine", Value: driver.Unknown}
	var engines sql.NullString
	err := s.rows.db.QueryRowContext(ctx, "SELECT GROUP_CONCAT(DISTINCT engine ORDER BY engine) FROM information_schema.tables"+
		" WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name IN ('padlock_locks', 'padlock_grants')", s.cfg.schema).Scan(&engines)
	if err != nil || !engines.Valid {
		return f
	}
	if f.Value = engines.String; !strings.EqualFold(f.Value, "InnoDB") {
		f.Advice = "transactions cannot lock their rows; run ALTER TABLE … ENGINE=InnoDB for padlock_locks and padlock_grants"
	}
	return f
}
