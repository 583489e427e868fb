package server

import (
	"database/sql"
	"testing"
)

// OpenSessions makes a pool have n idle sessions, which a test can let become stale.
func OpenSessions(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	db.SetMaxIdleConns(n)
	for range n {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // only at the end, so that each one is another session
	}
}

// Execute runs statements.
func Execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}
