package symfony

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Schema returns the statement that creates the table as PHP's PdoStore does.
func Schema(e sqlstore.Engine, opts ...Option) ([]string, error) {
	c, err := configure(e, Symfony, opts)
	if err != nil {
		return nil, err
	}
	return []string{newStatements(dialects[e], &c).create}, nil
}

// prepare creates the table if it is missing.
func (s *Store) prepare(ctx context.Context) error {
	_, err := s.read(ctx, "")
	if err != nil && dbms.Judge(err) != dbms.NoTable {
		return dbms.Failure(ctx, err, false)
	}
	if err != nil {
		if _, err := s.db.ExecContext(ctx, s.sql.create); err != nil && !s.madeMeanwhile(ctx) {
			return fmt.Errorf("%w: the table %s cannot be made; make it with the statement of `padlock schema`: %w", driver.ErrUnavailable, s.cfg.table, err)
		}
		return nil
	}
	return s.hasKey(ctx)
}

// madeMeanwhile reports whether the table exists now because another program has made it.
func (s *Store) madeMeanwhile(ctx context.Context) bool {
	for try := 0; try < 5; try++ {
		if _, err := s.read(ctx, ""); err == nil {
			return true
		}
		if !dbms.Pause(ctx, 5) {
			return false
		}
	}
	return false
}

// hasKey makes sure that the table cannot have two rows for one name. Without a unique key, MySQL
// would add a second row. The other engines would refuse the statement that takes a name.
func (s *Store) hasKey(ctx context.Context) error {
	if s.engine != sqlstore.MySQL {
		return nil
	}
	schema, table, found := strings.Cut(s.cfg.table, ".")
	if !found {
		schema, table = "", schema
	}
	var one int
	err := s.db.QueryRowContext(ctx, "SELECT 1 FROM information_schema.statistics WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) "+
		"AND table_name = ? GROUP BY index_name HAVING MAX(non_unique) = 0 AND COUNT(*) = 1 AND MAX(column_name) = ? LIMIT 1", schema, table, s.cfg.id).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: the table %s has no primary key on %s, so two holders could have one name; add PRIMARY KEY (%[3]s)", driver.ErrUnavailable, s.cfg.table, s.cfg.id)
	}
	return dbms.Failure(ctx, err, false)
}
