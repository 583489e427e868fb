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
	ctx, done, err := s.calls.Enter(ctx, dbms.Bound)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := dbms.Settings(ctx, s.rows.db, s.engine.String())
	if err != nil {
		return nil, err
	}
	if s.engine == MySQL {
		found = append(found, s.tableEngine(ctx))
	}
	if s.engine != SQLite {
		found = append(found, s.tableRights(ctx))
	}
	return found, nil
}

// tableRights finds out which rights on the tables the user lacks. For each right it sends a
// statement that needs the right and changes no row.
func (s *Store) tableRights(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "table-rights", Value: "complete"}
	unknown := false
	t := s.rows.tables
	var lacking []string
	for _, table := range []string{t.locks, t.grants, t.runs} {
		var rights []string
		for _, r := range [][2]string{
			{"SELECT", "SELECT name FROM " + table + " WHERE 1 = 0"},
			{"INSERT", "INSERT INTO " + table + " SELECT * FROM " + table + " WHERE 1 = 0"},
			{"UPDATE", "UPDATE " + table + " SET name = 'none' WHERE 1 = 0"},
			{"DELETE", "DELETE FROM " + table + " WHERE 1 = 0"},
		} {
			_, err := s.rows.db.ExecContext(ctx, r[1])
			if dbms.Denied(err) {
				rights = append(rights, r[0])
			} else if err != nil && dbms.Judge(err) != dbms.NoTable { // a table that is missing is made later
				unknown = true
			}
		}
		if rights != nil {
			name := table[strings.LastIndex(table, "padlock_"):]
			lacking = append(lacking, strings.Join(rights, ", ")+" on "+strings.Trim(name, "`\""))
		}
	}
	switch {
	case lacking != nil:
		f.Value = "the user lacks " + strings.Join(lacking, "; ")
		f.Advice = "GRANT SELECT, INSERT, UPDATE, DELETE on the tables to the user"
	case unknown:
		f.Value = driver.Unknown
	}
	return f
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
