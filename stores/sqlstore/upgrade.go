package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// upgrades has, for each version of the tables, the statements that bring them to the next version:
// upgrades[1] leads from version 1 to 2.
var upgrades = map[int]func(Engine, tables) []string{}

// Upgrade brings the tables of a database to the version of this package, and creates them if they
// do not exist. oldVersion is the version that they had, or 0 if there were none. After an upgrade,
// programs that know only an older version fail, and their error says what to do.
func Upgrade(ctx context.Context, db *sql.DB, e Engine, schema string) (oldVersion, newVersion int, err error) {
	s, err := Open(ctx, db, e, InSchema(schema), Lazy())
	if err != nil {
		return 0, 0, err
	}
	defer s.end()
	opening, cancel := dbms.BoundOpening(ctx) // the upgrade itself may take long
	defer cancel()
	if oldVersion, err = s.version(opening); err != nil {
		return 0, 0, err
	}
	if oldVersion > schemaVersion {
		return oldVersion, 0, s.newerError(oldVersion)
	}
	if oldVersion == 0 {
		return 0, schemaVersion, s.makeTables(ctx)
	}
	for v := oldVersion; v < schemaVersion; v++ {
		if err := s.upgradeFrom(ctx, v); err != nil {
			return oldVersion, v, err
		}
	}
	return oldVersion, schemaVersion, nil
}

// upgradeFrom carries out one step of an upgrade.
func (s *Store) upgradeFrom(ctx context.Context, version int) error {
	step := upgrades[version]
	if step == nil {
		return fmt.Errorf("%w: there is no upgrade from version %d of %s", driver.ErrUnavailable, version, s.rows.tables.locks)
	}
	list := append(step(s.engine, s.rows.tables), "UPDATE "+s.rows.tables.meta+" SET value = '"+strconv.Itoa(version+1)+"' WHERE setting = 'schema'")
	for _, text := range list {
		if _, err := s.rows.db.ExecContext(ctx, text); err != nil {
			return failure(ctx, err, false)
		}
	}
	return nil
}
