package mysqladvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// A Prune of a large table takes longer than one call to a silent server may take. It goes on until
// the table is done, or until its context ends.
func TestPruneOfALargeTable(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	s := mustOpenURL(t, dsn, "")
	const names = 5000 // ten batches, of half a second each
	fill := "INSERT INTO padlock_fences SELECT CONCAT('padlock:', seq), 1, CONCAT('job ', seq), '-', 0, '' FROM seq_1_to_" + strconv.Itoa(names)
	noOwnSweep(t, dsn)
	run(t, dsn, fill, "CREATE TRIGGER slow BEFORE DELETE ON padlock_fences FOR EACH ROW DO SLEEP(IF(OLD.lock_name LIKE '%00', 0.1, 0))")
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for left := names; left >= names; { // until the first batch is done
			if db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM padlock_fences").Scan(&left) != nil {
				return
			}
		}
		for sleeping := 0; sleeping == 0; { // until a later one has begun, so Prune knows of the first
			if db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep' AND db = DATABASE()").Scan(&sleeping) != nil {
				return
			}
		}
	}()
	first, err := s.Prune(ctx)
	if first == 0 || first == names || !errors.Is(err, context.Canceled) {
		t.Errorf("%d rows were removed until the context ended, %v", first, err)
	}
	run(t, dsn, "REPLACE "+strings.TrimPrefix(fill, "INSERT "))
	if n, err := s.Prune(t.Context()); n != names || err != nil {
		t.Errorf("%d rows were removed, %v; want %d", n, err, names)
	}
}
