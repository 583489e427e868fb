package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// endings are statements that end a transaction without a word to database/sql. Some of them begin
// another one. A statement may fail.
var endings = map[sqlstore.Engine][]string{
	sqlstore.PostgreSQL: {"COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "COMMIT AND CHAIN"},
	sqlstore.MySQL: {"deadlock", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "CREATE TABLE IF NOT EXISTS more (id int)",
		"START TRANSACTION", "BEGIN", "CALL begins()", "LOCK TABLES data WRITE; UNLOCK TABLES", "ROLLBACK; START TRANSACTION"},
	sqlstore.SQLite: {"COMMIT", "ROLLBACK", "COMMIT; BEGIN IMMEDIATE", "ROLLBACK; BEGIN IMMEDIATE",
		"INSERT OR ROLLBACK INTO data VALUES (1, 1)", "INSERT OR ROLLBACK INTO data VALUES (1, 1); BEGIN IMMEDIATE"},
}

// makeData makes the table data, and on MySQL a procedure that begins a transaction.
func makeData(t *testing.T, p *party, e sqlstore.Engine) {
	t.Helper()
	var rows strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rows, ", (%d, 0)", i+1)
	}
	queries := []string{"CREATE TABLE data (id int PRIMARY KEY, n int)",
		"INSERT INTO data VALUES (0, 0)" + rows.String()}
	if e == sqlstore.MySQL {
		queries = append(queries, "CREATE PROCEDURE begins() BEGIN START TRANSACTION; UPDATE data SET n = n + 1; END")
	}
	for _, query := range queries {
		_, err := p.db.Exec(query)
		noError(t, err)
	}
}

// deadlock makes the server undo a transaction.
func deadlock(t *testing.T, tx *sql.Tx, b *party) {
	t.Helper()
	other := b.begin(t, sql.LevelRepeatableRead)
	execIn(t, other, "UPDATE data SET n = n + 1 WHERE id > 1") // the larger transaction survives
	execIn(t, tx, "UPDATE data SET n = n + 1 WHERE id = 1")
	ended := make(chan error, 1)
	go func() {
		_, err := other.Exec("UPDATE data SET n = n + 1 WHERE id = 1")
		ended <- err
	}()
	if _, err := tx.Exec("UPDATE data SET n = n + 1 WHERE id = 2"); err == nil || !strings.Contains(err.Error(), "1213") {
		t.Fatalf("no deadlock: %v", err)
	}
	noError(t, <-ended)
	noError(t, other.Rollback())
}

// TestConfirmTxOfAnotherTransaction: the database has ended the transaction that had the locks, and
// perhaps begun another one. A later call for another name does not hide it.
func TestConfirmTxOfAnotherTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		a, b := d.party(t), d.party(t)
		makeData(t, a, d.engine)
		pools := map[string]*sql.DB{"the pool of the store": a.db}
		if d.engine == sqlstore.MySQL {
			db, err := sql.Open(d.driver, d.dsn+"?autocommit=0")
			noError(t, err)
			t.Cleanup(func() { db.Close() })
			pools["a pool with autocommit=0"] = db
		}
		for pool, db := range pools {
			for _, end := range endings[d.engine] {
				for _, way := range []string{"LockTx", "CheckTx", "LockTx before and after"} {
					t.Run(pool+"/"+end+"/"+way, func(t *testing.T) {
						name := t.Name()
						g, err := a.store.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf("t"), TTL: time.Minute})
						noError(t, err)
						tx, err := db.BeginTx(t.Context(), nil)
						noError(t, err)
						defer tx.Rollback()
						if way == "CheckTx" {
							noError(t, a.store.CheckTx(t.Context(), tx, granted{name, g.Fence}))
						} else {
							noError(t, a.store.LockTx(t.Context(), tx, name+" too"))
						}
						noError(t, a.store.ConfirmTx(t.Context(), tx))
						if end == "deadlock" {
							deadlock(t, tx, b)
						} else {
							for _, query := range strings.Split(end, "; ") {
								_, _ = tx.Exec(query)
							}
						}
						_, _ = tx.Exec("UPDATE data SET n = n + 1 WHERE id = 4")
						if way == "LockTx before and after" {
							_ = a.store.LockTx(t.Context(), tx, name+" as well")
						}
						wantError(t, "ConfirmTx", a.store.ConfirmTx(t.Context(), tx), driver.ErrLost)
						wantError(t, "ConfirmTx again", a.store.ConfirmTx(t.Context(), tx), driver.ErrLost)
						_, _ = tx.Exec("ROLLBACK")
					})
				}
			}
		}
	})
}

// TestConfirmTxOfALivingTransaction: at each isolation level, ConfirmTx confirms several names, as
// often as it is called. Savepoints of the caller's stay usable until then.
func TestConfirmTxOfALivingTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		makeData(t, p, d.engine)
		for _, level := range meetings(d.engine, nil).Levels {
			name := "living " + level.String()
			p.hold(t, name, "token")
			st, err := p.store.Inspect(t.Context(), name)
			noError(t, err)
			lock, tx := granted{name, st.Fence}, p.begin(t, level)
			confirm := func(when string, want error) {
				t.Helper()
				wantError(t, level.String()+", "+when, p.store.ConfirmTx(t.Context(), tx), want)
			}
			confirm("before the first call", driver.ErrLost)
			execIn(t, tx, "SAVEPOINT first")
			noError(t, p.store.CheckTx(t.Context(), tx, lock))
			execIn(t, tx, "SAVEPOINT here")
			execIn(t, tx, "UPDATE data SET n = 5 WHERE id = 1")
			noError(t, p.store.CheckTx(t.Context(), tx, lock))
			execIn(t, tx, "ROLLBACK TO SAVEPOINT here")
			noError(t, p.store.CheckTx(t.Context(), tx, lock))
			confirm("after two calls", nil)
			confirm("once more", nil)
			execIn(t, tx, "SAVEPOINT here")
			execIn(t, tx, "ROLLBACK TO SAVEPOINT here")
			confirm("after a rollback to a later savepoint", nil)
			execIn(t, tx, "ROLLBACK TO SAVEPOINT first")
			confirm("after a rollback to an earlier savepoint", driver.ErrLost)
			noError(t, p.store.CheckTx(t.Context(), tx, lock))
			confirm("after another call", nil)
			noError(t, tx.Commit())
		}
	})
}

// TestConfirmTxOfPgx: padlock remembers nothing about a pgx.Tx, and notices nevertheless that it is
// in another transaction.
func TestConfirmTxOfPgx(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	p := d.party(t)
	conn, err := pgx.Connect(t.Context(), d.dsn)
	noError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	noError(t, err)
	noError(t, p.store.LockTx(t.Context(), postgres.Tx(tx), "name"))
	noError(t, p.store.ConfirmTx(t.Context(), postgres.Tx(tx)))
	_, err = tx.Exec(t.Context(), "COMMIT AND CHAIN")
	noError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE padlock_meta SET value = value")
	noError(t, err)
	wantError(t, "ConfirmTx", p.store.ConfirmTx(t.Context(), postgres.Tx(tx)), driver.ErrLost)
}

// TestCheckTxOfAnOldSnapshot: the lock has ended since the transaction read for the first time, or
// its holder has renewed it.
func TestCheckTxOfAnOldSnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("CheckTx writes, which SQLite refuses in an old snapshot")
		}
		a, b := d.party(t), d.party(t)
		for _, level := range meetings(d.engine, nil).Levels {
			var name string
			for what, c := range map[string]struct {
				end  func(fence uint64) error
				want error
			}{
				"Release": {func(uint64) error { _, err := b.store.Release(t.Context(), name, "token", 0); return err }, driver.ErrLost},
				"Break":   {func(fence uint64) error { _, err := b.store.Break(t.Context(), name, fence); return err }, driver.ErrLost},
				"lapse":   {func(uint64) error { d.end(t, name); return nil }, driver.ErrExpired},
				"renewal": {func(uint64) error { _, err := b.store.Extend(t.Context(), name, "token", 2*time.Minute); return err }, nil},
			} {
				name = level.String() + " " + what
				a.hold(t, name, "token")
				st, err := a.store.Inspect(t.Context(), name)
				noError(t, err)
				tx := a.begin(t, level)
				var n int
				noError(t, tx.QueryRow("SELECT count(*) FROM padlock_meta").Scan(&n))
				noError(t, c.end(st.Fence))
				wantError(t, level.String()+", CheckTx after "+what, a.store.CheckTx(t.Context(), tx, granted{name, st.Fence}), c.want)
				noError(t, tx.Rollback())
			}
		}
	})
}

// TestConfirmTxOfAKilledSession: the server has ended the connection. ConfirmTx and the commit fail.
func TestConfirmTxOfAKilledSession(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		kill := map[sqlstore.Engine]string{
			sqlstore.PostgreSQL: "SELECT pg_terminate_backend(pg_backend_pid())",
			sqlstore.MySQL:      "KILL CONNECTION_ID()",
		}[d.engine]
		if kill == "" {
			t.Skip("SQLite has no server")
		}
		tx, err := d.party(t).lockTx(t, "name")
		noError(t, err)
		_, _ = tx.Exec(kill)
		if err := d.party(t).store.ConfirmTx(t.Context(), tx); err == nil {
			t.Error("ConfirmTx in a session that was killed succeeded")
		}
		if err := tx.Commit(); err == nil {
			t.Error("the commit in a session that was killed succeeded")
		}
	})
}
