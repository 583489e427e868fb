package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
)

// Waiters hold up nothing in the database: between two looks they have no transaction, no snapshot
// and no lock of a table or a row. On PostgreSQL, one session listens.
func TestWaitersHaveNoTransaction(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := server.SharedPostgres(t).URL()
		db, end := waitersOf(t, "pgx", url, url, postgres.Opener())
		defer end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, statement := range []string{"CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) a",
			"CREATE INDEX CONCURRENTLY i ON t (a)", "DROP INDEX i", "DELETE FROM t"} {
			_, err := db.ExecContext(ctx, statement)
			noError(t, err)
		}
		eventually(t, "VACUUM removes the deleted rows", func() bool {
			_, err := db.ExecContext(ctx, "VACUUM t")
			noError(t, err)
			return one(t, db, "SELECT pg_relation_size('t')") == 0
		})
		eventually(t, "no session is idle in a transaction", func() bool {
			return one(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'") == 0
		})
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		dsn := server.SharedMariaDB(t).URL()
		url := "mysql://" + strings.NewReplacer("tcp(", "", ")", "").Replace(dsn)
		db, end := waitersOf(t, "mysql", dsn, url, mysql.Opener())
		defer end()
		for _, statement := range []string{"ALTER TABLE padlock_locks COMMENT = 'changed'", "ALTER TABLE padlock_grants COMMENT = 'changed'"} {
			_, err := db.ExecContext(t.Context(), statement)
			noError(t, err)
		}
		eventually(t, "no transaction is open", func() bool {
			return one(t, db, "SELECT COUNT(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p"+
				" ON p.id = x.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.command = 'Sleep'") == 0
		})
	})
}

// On SQLite a waiter keeps no read transaction, which would keep a checkpoint from the end of the
// write-ahead log.
func TestWaitersLetSQLiteCheckpoint(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.Join(t.TempDir(), "db")
	db, end := waitersOf(t, "sqlite", "file:"+strings.TrimPrefix(url, "sqlite://")+"?_pragma=busy_timeout(10000)", url, sqlite.Opener())
	defer end()
	eventually(t, "a whole checkpoint", func() bool {
		var busy, log, done int
		noError(t, db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done))
		return busy == 0
	})
}

// waitersOf starts five waiters in two processes, beside a holder.
func waitersOf(t *testing.T, driverName, dsn, rawURL string, o sqlstore.Opener) (db *sql.DB, end func()) {
	db, err := sql.Open(driverName, dsn)
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	done, all := make(chan error, 5), []driver.Store{}
	for range 2 {
		s, err := fromURL(ctx, rawURL, o)
		noError(t, err)
		t.Cleanup(func() { s.Close() })
		all = append(all, s)
	}
	noError(t, take(t, all[0], "job", "holder"))
	for i := range cap(done) {
		r := driver.Request{Name: "job", Token: driver.TokenOf("waiter " + string(rune('a'+i))), TTL: time.Minute}
		go func() {
			_, err := all[i%2].(driver.Waiter).Wait(ctx, r, true)
			done <- err
		}()
	}
	eventually(t, "five waiters", func() bool {
		st, err := all[0].(driver.Admin).Inspect(ctx, "job")
		noError(t, err)
		return st.Waiters == cap(done)
	})
	return db, func() {
		cancel()
		for range cap(done) {
			<-done
		}
	}
}

func one(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	noError(t, db.QueryRow(query).Scan(&n))
	return n
}
