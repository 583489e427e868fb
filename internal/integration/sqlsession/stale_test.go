package sqlsession_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// refusedOnce commits sessions on stale connections. The first commit is refused and says why. The
// next one gets a new connection.
func refusedOnce(t *testing.T, s *sqlsession.Store) {
	t.Helper()
	create := sessionstore.Change{Create: true, TTL: time.Minute}
	_, err := s.Commit(t.Context(), rand.Text(), create)
	if !errors.Is(err, sessionstore.ErrUnavailable) || !strings.Contains(err.Error(), "the next call connects anew") {
		t.Errorf("the commit on a stale connection: %v", err)
	}
	for range 3 {
		if _, err := s.Commit(t.Context(), rand.Text(), create); err != nil {
			t.Errorf("a commit after the refusal: %v", err)
		}
	}
}

// TestReadOnlyPeriod: sessions of PostgreSQL that began while default_transaction_read_only was on
// stay read-only.
func TestReadOnlyPeriod(t *testing.T) {
	t.Parallel()
	d := database{"pgx", server.Postgres(t, server.PostgresOptions{}).URL(), sqlsession.Postgres, "public"}
	admin, db := d.open(t), d.open(t)
	s := d.store(t, db)
	server.Execute(t, admin, "ALTER DATABASE postgres SET default_transaction_read_only = on")
	db.SetMaxIdleConns(-1)
	server.OpenSessions(t, db, 5)
	server.Execute(t, admin, "ALTER DATABASE postgres RESET default_transaction_read_only")
	refusedOnce(t, s)
}

// TestSwapBehindOneAddress: a server becomes read-only, and new connections lead to another server.
// The old connections stay open.
func TestSwapBehindOneAddress(t *testing.T) {
	t.Parallel()
	a, b := server.MariaDB(t), server.MariaDB(t)
	admin := map[*server.Server]*sql.DB{}
	for _, srv := range []*server.Server{a, b} {
		admin[srv] = database{driver: "mysql", dsn: srv.URL()}.open(t)
		server.Execute(t, admin[srv], "CREATE DATABASE d", "CREATE USER app IDENTIFIED BY 'pw'", "GRANT ALL ON d.* TO app")
	}
	front := server.NewProxy(t, b.Addr())
	d := database{"mysql", "app:pw@tcp(" + front.Addr() + ")/d", sqlsession.MySQL, "d"}
	d.store(t, d.open(t)) // makes the table there
	front.Lead(a.Addr())
	db := d.open(t)
	s := d.store(t, db)
	server.OpenSessions(t, db, 5)
	server.Execute(t, admin[a], "SET GLOBAL read_only = 1")
	front.Lead(b.Addr())
	refusedOnce(t, s)
}
