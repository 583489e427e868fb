package pgadvisory

import (
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// versionOf returns the version of the table, or 0 if there is none. It returns an error for a
// table of a newer padlock.
func versionOf(c *conn, fence *statement) (int, error) {
	rows, err := c.exec(fence, number(versionKey))
	switch {
	case hasCode(err, undefinedTable):
		return 0, nil
	case err != nil:
		return 0, failure(err)
	case len(rows) == 0:
		return 1, nil
	}
	if n := parse(rows[0][0]); n != schemaVersion {
		return int(n), fmt.Errorf("%w: the table of fences has version %d and this padlock knows version %d; install the newest padlock of all programs that share it",
			driver.ErrUnavailable, n, schemaVersion)
	}
	return schemaVersion, nil
}

// makeTable runs statements of Schema.
func makeTable(c *conn, statements []string) error {
	for _, sql := range statements {
		_, err := c.exec(&statement{"padlock_make" + sql[:6], sql})
		switch {
		case hasCode(err, notPrivileged):
			return fmt.Errorf("%w: the table of fences is missing, and this user may not make it: run the SQL of Schema as another user, or leave fences out (fences=no): %w", driver.ErrUnavailable, err)
		case err != nil && !hasCode(err, uniqueViolation, duplicateTable): // another process makes it too
			return failure(err)
		}
	}
	return nil
}
