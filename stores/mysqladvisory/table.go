package mysqladvisory

import (
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// versionOf returns the version of the table, or 0 if there is none. It returns an error for a
// table of a newer padlock.
func versionOf(c *conn, sql *statements) (int, error) {
	rows, err := c.query(sql.fence(versionRow))
	switch {
	case hasNumber(err, noTable):
		return 0, nil
	case err != nil:
		return 0, tableFailure(err)
	case len(rows) == 0:
		return 1, nil
	}
	if n := int(rows[0].number(0)); n != schemaVersion {
		return n, fmt.Errorf("%w: the table of fences has version %d and this padlock knows version %d; install the newest padlock of all programs that share it",
			driver.ErrUnavailable, n, schemaVersion)
	}
	return schemaVersion, nil
}

// makeTable runs the statements of Schema. Several processes may run them at the same time.
func makeTable(c *conn, database string) error {
	statements, err := Schema(database)
	if err != nil {
		return err
	}
	for _, sql := range statements {
		if _, err := c.exec(sql); err != nil {
			return tableFailure(err)
		}
	}
	return nil
}

// tableFailure is like failure, and adds advice for a user who may not create or use the table.
func tableFailure(err error) error {
	if hasNumber(err, deniedTable, deniedDatabase, noDatabase) {
		return fmt.Errorf("%w: the table of fences is missing, or this user may not use it: run the SQL of Schema as another user and grant SELECT, INSERT and UPDATE on it, or leave fences out (fences=no): %w", driver.ErrUnavailable, err)
	}
	return failure(err)
}
