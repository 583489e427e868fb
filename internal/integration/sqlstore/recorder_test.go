package sqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// The table of records is younger than the other tables. If it is missing, the first record makes
// it. Prune removes records that nobody has written for fast.RecordKeep.
func TestRecords(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t).party(t)
			noError(t, p.store.Record(t.Context(), "job", []fast.Record{{ID: "r1", Text: "x"}}))
			drop(t, p, "padlock_runs")
			hasRecords(t, p.store, 0)
			noError(t, p.store.Record(t.Context(), "job", []fast.Record{{ID: "r2", Text: "x"}}))
			hasRecords(t, p.store, 1)
			_, err := p.store.Prune(t.Context())
			noError(t, err)
			hasRecords(t, p.store, 1)
			_, err = p.db.Exec("UPDATE padlock_runs SET written = written - 401 * 86400000000")
			noError(t, err)
			_, err = p.store.Prune(t.Context())
			noError(t, err)
			hasRecords(t, p.store, 0)
		})
	}
}

func hasRecords(t *testing.T, r fast.Recorder, want int) {
	t.Helper()
	records, err := r.Records(t.Context(), "job")
	names, err2 := r.Recorded(t.Context(), "", 10)
	if err != nil || err2 != nil || len(records) != want || len(names) != want {
		t.Errorf("there are %v of %q, %v, %v; want %d", records, names, err, err2, want)
	}
}

// A user that may not make the table has locks as before, and learns what to do.
func TestRecordsWithoutTheRightToMakeTables(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	limitedPostgres(t, srv.URL(), "public")
	run(t, "pgx", srv.URL(), "DROP TABLE padlock_runs")
	s, err := fromURL(t.Context(), strings.Replace(srv.URL(), "postgres@", "app@", 1), postgres.Opener())
	noError(t, err)
	defer s.Close()
	noError(t, take(t, s, "job", "token"))
	r, _ := driver.As[fast.Recorder](s)
	hasRecords(t, r, 0)
	err = r.Record(t.Context(), "job", []fast.Record{{ID: "r1", Text: "x"}})
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "padlock schema") {
		t.Errorf("Record returns %v", err)
	}
	list, err := sqlstore.Schema(sqlstore.PostgreSQL, "")
	noError(t, err)
	run(t, "pgx", srv.URL(), append(list, "GRANT SELECT, INSERT, UPDATE, DELETE ON padlock_runs TO app")...)
	noError(t, r.Record(t.Context(), "job", []fast.Record{{ID: "r1", Text: "x"}}))
	hasRecords(t, r, 1)
}
