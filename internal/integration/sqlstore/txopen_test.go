package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestConfirmTx: ConfirmTx tells whether the transaction still keeps its names.
func TestConfirmTx(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		tx, err := p.lockTx(t, "name")
		noError(t, err)
		noError(t, p.store.ConfirmTx(t.Context(), tx))
		noError(t, p.store.ConfirmTx(t.Context(), tx))
		noError(t, tx.Commit())

		p.hold(t, "name", "token")
		st, err := p.store.Inspect(t.Context(), "name")
		noError(t, err)
		tx = p.begin(t, sql.LevelDefault)
		noError(t, p.store.CheckTx(t.Context(), tx, granted{"name", st.Fence}))
		noError(t, p.store.ConfirmTx(t.Context(), tx))
		_, err = tx.Exec("SELECT * FROM no_such_table")
		if err == nil {
			t.Fatal("there is a table that should not exist")
		}
		if err := p.store.ConfirmTx(t.Context(), tx); (err != nil) != (d.engine == sqlstore.PostgreSQL) {
			t.Errorf("ConfirmTx after a statement that failed: %v", err)
		}
		noError(t, tx.Rollback())

		// The database ends the transaction without a word to database/sql.
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			tx, err = p.lockTx(t, end)
			noError(t, err)
			_, err = tx.Exec(end)
			noError(t, err)
			wantError(t, "ConfirmTx after "+end, p.store.ConfirmTx(t.Context(), tx), driver.ErrLost)
			tx.Rollback()
		}
	})
}

// TestDeadlockEndsALock: MySQL undoes a transaction after a deadlock, and commits it before a
// statement that changes a table.
func TestDeadlockEndsALock(t *testing.T) {
	t.Parallel()
	d := databases["mariadb"](t)
	a, b := d.party(t), d.party(t)
	for _, query := range []string{"CREATE TABLE data (id int PRIMARY KEY, n int) ENGINE=InnoDB", "INSERT INTO data SELECT seq, 0 FROM seq_1_to_100"} {
		_, err := a.db.Exec(query)
		noError(t, err)
	}
	ends := map[string]func(t *testing.T, tx *sql.Tx){
		"deadlock": func(t *testing.T, tx *sql.Tx) {
			other := b.begin(t, sql.LevelDefault)
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
		},
		"implicit commit": func(t *testing.T, tx *sql.Tx) { execIn(t, tx, "CREATE TABLE more (id int)") },
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			tx, err := a.lockTx(t, what)
			noError(t, err)
			end(t, tx)
			b.hold(t, what, "token")
			execIn(t, tx, "UPDATE data SET n = n + 1 WHERE id = 1") // it succeeds, without the lock
			wantError(t, "ConfirmTx", a.store.ConfirmTx(t.Context(), tx), driver.ErrLost)
			if err := a.store.LockTx(t.Context(), tx, "another name"); err == nil {
				t.Error("LockTx in a transaction that has ended")
			}
			st, err := b.store.Inspect(t.Context(), what)
			noError(t, err)
			if err := b.store.CheckTx(t.Context(), tx, granted{what, st.Fence}); err == nil {
				t.Error("CheckTx in a transaction that has ended")
			}
		})
	}
}

// TestTransactionOfAnotherDatabase: a transaction of another database, which has padlock's tables
// too, protects nothing.
func TestTransactionOfAnotherDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		a, other := d.party(t), d
		switch d.engine {
		case sqlstore.PostgreSQL:
			other = databases["postgres"](t)
		case sqlstore.MySQL:
			other = databases["mariadb"](t)
		case sqlstore.SQLite:
			other.dsn = "file:" + filepath.Join(t.TempDir(), "other")
		}
		b := other.party(t)
		for _, used := range []bool{false, true} { // the name in the other database
			tx := b.begin(t, sql.LevelDefault)
			wantError(t, "LockTx", a.store.LockTx(t.Context(), tx, "name"), driver.ErrInvalid)
			noError(t, tx.Rollback())
			g, err := a.store.Acquire(t.Context(), driver.Request{Name: "name", Token: driver.TokenOf("token"), TTL: time.Minute})
			noError(t, err)
			tx = b.begin(t, sql.LevelDefault)
			wantError(t, "CheckTx", a.store.CheckTx(t.Context(), tx, granted{"name", g.Fence}), driver.ErrInvalid)
			noError(t, tx.Rollback())
			_, err = a.store.Release(t.Context(), "name", "token", 0)
			noError(t, err)
			if !used {
				b.hold(t, "name", "token")
			}
		}
	})
}

// TestTransactionOfACopy: a transaction of a copy of the database, which has the id of the store,
// protects nothing.
func TestTransactionOfACopy(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		p.hold(t, "name", "token")
		p.hold(t, "free", "token")
		_, err := p.store.Release(t.Context(), "free", "token", 0)
		noError(t, err)
		st, err := p.store.Inspect(t.Context(), "name")
		noError(t, err)
		copied := d
		switch d.engine {
		case sqlstore.PostgreSQL:
			other := databases["postgres"](t).party(t)
			p.store.Close() // a template must not be in use
			p.db.Close()
			name := d.name(t)
			_, err := other.db.Exec("CREATE DATABASE " + name + "_copy TEMPLATE " + name)
			noError(t, err)
			copied.dsn = strings.Replace(d.dsn, name, name+"_copy", 1)
			p = d.party(t)
		case sqlstore.MySQL:
			copied = databases["mariadb"](t)
			other := copied.party(t)
			for _, table := range []string{"padlock_locks", "padlock_grants", "padlock_meta"} {
				for _, query := range []string{"DELETE FROM " + table, "INSERT INTO " + table + " SELECT * FROM " + d.name(t) + "." + table} {
					_, err := other.db.Exec(query)
					noError(t, err)
				}
			}
		default:
			t.Skip("SQLite cannot tell a copy of the file")
		}
		b := copied.party(t)
		tx := b.begin(t, sql.LevelDefault)
		wantError(t, "LockTx", p.store.LockTx(t.Context(), tx, "free"), driver.ErrInvalid)
		noError(t, tx.Rollback())
		tx = b.begin(t, sql.LevelDefault)
		wantError(t, "CheckTx", p.store.CheckTx(t.Context(), tx, granted{"name", st.Fence}), driver.ErrInvalid)
		noError(t, tx.Rollback())
		tx = p.begin(t, sql.LevelDefault)
		noError(t, p.store.CheckTx(t.Context(), tx, granted{"name", st.Fence}))
	})
}

// name returns the name of the database.
func (d database) name(t *testing.T) (name string) {
	t.Helper()
	db, err := d.pool()
	noError(t, err)
	defer db.Close()
	query := "SELECT current_database()"
	if d.engine == sqlstore.MySQL {
		query = "SELECT DATABASE()"
	}
	noError(t, db.QueryRow(query).Scan(&name))
	return name
}
