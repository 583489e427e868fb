package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// A Prune of a large table takes longer than one call to a silent server may take. It goes on until
// the table is done, or until its context ends.
func TestPruneOfALargeTable(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	s, conn := mustOpen(t, srv.URL()), connect(t, srv.URL())
	noOwnSweep(t, conn)
	const names = 5000 // ten batches, of half a second each
	fill := fmt.Sprintf("INSERT INTO padlock_fences (key, fence, shared, name) SELECT n, 1, false, convert_to('job ' || n, 'UTF8') FROM generate_series(1, %d) n ON CONFLICT DO NOTHING", names)
	execute(t, conn, fill)
	execute(t, conn, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_notify(''batch'', ''''), pg_sleep(0.5); RETURN NULL; END'")
	execute(t, conn, "CREATE TRIGGER slow BEFORE DELETE ON padlock_fences FOR EACH STATEMENT EXECUTE FUNCTION slow()")
	execute(t, conn, "LISTEN batch")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		if _, err := conn.WaitForNotification(t.Context()); err != nil { // the first batch is done
			return
		}
		for sleeping := 0; sleeping == 0; { // until a later one has begun, so Prune knows of the first
			if conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'").Scan(&sleeping) != nil {
				return
			}
		}
	}()
	first, err := s.Prune(ctx)
	if first == 0 || first == names || !errors.Is(err, context.Canceled) {
		t.Errorf("%d rows were removed until the context ended, %v", first, err)
	}
	execute(t, conn, fill)
	if n, err := s.Prune(t.Context()); n != names || err != nil {
		t.Errorf("%d rows were removed, %v; want %d", n, err, names)
	}
	if n := readValue[int](t, conn, "SELECT count(*) FROM padlock_fences"); n != 1 {
		t.Errorf("%d rows are left; want the one with the version", n)
	}
}
