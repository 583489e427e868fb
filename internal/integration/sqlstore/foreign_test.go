package sqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// Tables of another program with the names of padlock's tables keep their rows and columns. Open
// makes nothing, and its error names the table.
func TestTablesOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for table, columns := range map[string]string{
				"padlock_locks": "name varchar(20), note varchar(20)", "padlock_runs": "name varchar(20), note varchar(20)",
				"padlock_meta": "name varchar(20), note varchar(20)", "padlock_meta ": "setting varchar(20), value varchar(20)",
			} {
				table = strings.TrimSpace(table)
				d := start(t)
				db, err := d.pool()
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				for _, q := range []string{"CREATE TABLE " + table + " (" + columns + ")", "INSERT INTO " + table + " VALUES ('n', 'theirs')"} {
					if _, err := db.ExecContext(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := sqlstore.Open(t.Context(), db, d.engine); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), table) || !strings.Contains(err.Error(), "belongs to another program") {
					t.Errorf("%s (%s): %v", table, columns, err)
				}
				var rows int
				if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&rows); err != nil || rows != 1 {
					t.Errorf("%s (%s): it has %d rows, %v", table, columns, rows, err)
				}
				for _, other := range []string{"padlock_locks", "padlock_meta", "padlock_runs", "padlock_grants"} {
					if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+other).Scan(&rows); err == nil && other != table {
						t.Errorf("beside a foreign %s, %s was made", table, other)
					}
				}
			}
		})
	}
}
