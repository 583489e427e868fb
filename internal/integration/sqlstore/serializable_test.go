package sqlstore_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// refusedReads: PostgreSQL refuses a statement that only reads, and List and Inspect make it again.
//
// The transaction first reads a row, and second changes that row and commits. Then the statement of
// List begins, and waits for first, which keeps the table locked. At last first changes the row of
// a lock and commits. The three can be put in no order, because List saw what second wrote and did
// not see what first wrote, and first did not see what second wrote. List is the last of them that
// has not ended, so PostgreSQL refuses it.
func (d database) refusedReads(t *testing.T) {
	p := d.party(t)
	reader, count := d.counted(t)
	_, err := p.db.Exec("CREATE TABLE other (n int)")
	noError(t, err)
	_, err = p.db.Exec("INSERT INTO other VALUES (0)")
	noError(t, err)
	_, err = p.store.Acquire(t.Context(), driver.Request{Name: "read", Token: driver.TokenOf("token"), TTL: time.Minute})
	noError(t, err)
	for name, read := range map[string]func() ([]driver.State, error){
		"List": func() ([]driver.State, error) { return reader.store.List(t.Context(), "read") },
		"Inspect": func() ([]driver.State, error) {
			st, err := reader.store.Inspect(t.Context(), "read")
			return []driver.State{st}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read() // from now on, the statement is prepared, so it begins with its snapshot
			noError(t, err)
			first, second := p.begin(t, sql.LevelSerializable), p.begin(t, sql.LevelSerializable)
			var n int
			noError(t, first.QueryRow("SELECT n FROM other").Scan(&n))
			execIn(t, first, "LOCK TABLE padlock_locks IN ACCESS EXCLUSIVE MODE")
			execIn(t, second, "UPDATE other SET n = n + 1")
			noError(t, second.Commit())
			before := count.Load()
			var out []driver.State
			var problem error
			done := make(chan struct{})
			go func() {
				defer close(done)
				out, problem = read()
			}()
			eventually(t, name+" waits for the table", func() bool {
				query := "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'padlock_locks'::regclass"
				return p.db.QueryRow(query).Scan(&n) == nil && n == 1
			})
			execIn(t, first, "UPDATE padlock_locks SET version = version + 1 WHERE name = 'read'")
			noError(t, first.Commit())
			<-done
			noError(t, problem)
			if !slices.ContainsFunc(out, func(s driver.State) bool { return s.Name == "read" && len(s.Holds) == 1 }) {
				t.Errorf("%+v", out)
			}
			if n := count.Load() - before; n != 2 {
				t.Errorf("%d statements, want 2; PostgreSQL has to refuse the first one", n)
			}
		})
	}
}

func execIn(t *testing.T, tx *sql.Tx, query string) {
	t.Helper()
	_, err := tx.ExecContext(context.Background(), query)
	noError(t, err)
}
