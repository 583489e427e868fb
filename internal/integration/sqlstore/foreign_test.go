package sqlstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// Tables of another program, with the names of padlock's tables and other columns, keep their rows
// and columns. Every verb returns an error that names what is wrong with them.
func TestTablesOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, table := range []string{"padlock_locks", "padlock_meta"} {
				d := start(t)
				db, err := d.pool()
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				for _, q := range []string{"CREATE TABLE " + table + " (name varchar(20), note varchar(20))", "INSERT INTO " + table + " VALUES ('n', 'theirs')"} {
					if _, err := db.ExecContext(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				s, err := sqlstore.Open(t.Context(), db, d.engine)
				if err == nil {
					_, err = s.Acquire(t.Context(), driver.Request{Name: "n", Token: "a", TTL: time.Minute})
					_, broken := s.Break(t.Context(), "n", 0)
					_, pruned := s.Prune(t.Context())
					_, seen := s.Inspect(t.Context(), "n")
					for verb, err := range map[string]error{"Break": broken, "Prune": pruned, "Inspect": seen} {
						if !errors.Is(err, driver.ErrUnavailable) {
							t.Errorf("%s: %s: %v", table, verb, err)
						}
					}
					s.Close()
				}
				if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "column") {
					t.Errorf("%s: %v", table, err)
				}
				var note string
				if err := db.QueryRowContext(t.Context(), "SELECT note FROM "+table).Scan(&note); err != nil || note != "theirs" {
					t.Errorf("%s: the row has %q, %v", table, note, err)
				}
			}
		})
	}
}
