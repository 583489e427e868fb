package sqlstore_test

import (
	"database/sql"
	"testing"

	"github.com/padlock-go/padlock/internal/integration/sqlstore/txtest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// meetings is the harness of txtest for an engine.
func meetings(e sqlstore.Engine, start func(t *testing.T) *party) txtest.Harness {
	h := txtest.Harness{
		Start: func(t *testing.T) txtest.Process {
			p := start(t)
			return txtest.Process{DB: p.db, Store: p.store}
		},
		Levels:    []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		EndLease:  "UPDATE padlock_locks SET version = version + 1, until = since WHERE name = ?",
		OneWriter: e == sqlstore.SQLite,
	}
	switch e {
	case sqlstore.PostgreSQL:
		h.Levels = h.Levels[1:] // to PostgreSQL, READ UNCOMMITTED is READ COMMITTED
		h.EndLease = "UPDATE padlock_locks SET version = version + 1, until = since WHERE name = $1"
		h.Forget = "DELETE FROM padlock_grants WHERE name = $1"
	case sqlstore.SQLite:
		h.Levels = []sql.IsolationLevel{sql.LevelDefault}
	}
	return h
}

// TestMeetings: no two of Acquire, CheckTx and LockTx give one name to two processes, and LockTx
// gives it to no transaction with an old snapshot.
func TestMeetings(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			txtest.Run(t, meetings(d.engine, d.party))
			txtest.RunSnapshots(t, meetings(d.engine, d.party))
		})
	}
	t.Run("pgbouncer", func(t *testing.T) {
		server.Thorough(t)
		t.Parallel()
		pooler := server.PgBouncer(t, server.Postgres(t, server.PostgresOptions{}), "transaction")
		txtest.Run(t, meetings(sqlstore.PostgreSQL, func(t *testing.T) *party {
			db, _, err := postgres.Open(pooler.URL())
			noError(t, err)
			db.SetMaxOpenConns(5)
			return partyOver(t, db, sqlstore.PostgreSQL)
		}))
	})
}
