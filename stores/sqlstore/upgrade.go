package sqlstore

import (
	"context"
	"database/sql"

	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Upgrade brings the tables of a database to the version of this package, and creates them if they
// do not exist. oldVersion is the version that they had, or 0 if there were none. After an upgrade,
// programs that know only an older version fail, and their error says what to do.
func Upgrade(ctx context.Context, db *sql.DB, e Engine, schema string) (oldVersion, newVersion int, err error) {
	s, err := Open(ctx, db, e, InSchema(schema), Lazy())
	if err != nil {
		return 0, 0, err
	}
	defer s.calls.End()
	opening, cancel := dbms.BoundOpening(ctx) // to make the tables may take long
	defer cancel()
	oldVersion, err = s.version(opening)
	switch {
	case err != nil:
		return 0, 0, err
	case oldVersion > schemaVersion:
		return oldVersion, 0, s.newerError(oldVersion)
	case oldVersion == 0:
		err = s.makeTables(ctx)
	}
	return oldVersion, schemaVersion, err
}
