package advisory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A backup keeps all tables of the server for reading only. A named lock stays with its holder,
// which needs no table. A lease in a table cannot be renewed. A caller
// that gave up meanwhile has an uncertain outcome, and can release what it may have got.
func TestBackupKeepsTheTables(t *testing.T) {
	t.Parallel()
	srv := mariadb.own(t)
	db := mariadb.db(t, srv.URL())
	leases, err := sqlstore.Open(t.Context(), db, sqlstore.MySQL)
	noError(t, err)
	defer leases.Close()
	named := mariadb.mustOpen(t, srv.URL(), "")
	ofNamed, ofLeases := request("held"), request("held")
	take(t, named, ofNamed)
	take(t, leases, ofLeases)
	backup, err := mariadb.db(t, srv.URL()).Conn(t.Context())
	noError(t, err)
	defer backup.Close()
	_, err = backup.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	noError(t, err)

	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := named.Extend(t.Context(), "held", ofNamed.Token.Text(), ofNamed.TTL); err != nil {
		t.Errorf("a named lock is not confirmed: %v", err)
	}
	if _, err := leases.Extend(short(), "held", ofLeases.Token.Text(), ofLeases.TTL); err == nil || errors.Is(err, driver.ErrLost) {
		t.Errorf("a lease is renewed: %v", err)
	}
	given := request("new") // the caller gives it up
	for what, s := range map[string]driver.Store{"named": named, "lease": leases} {
		_, err := s.Acquire(short(), given)
		if err == nil || errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: granted while the tables are kept: %v", what, err)
		}
	}
	_, err = backup.ExecContext(t.Context(), "UNLOCK TABLES")
	noError(t, err)
	for what, s := range map[string]driver.Store{"named": named, "lease": leases} {
		until(t, "an answer to Release", func() bool {
			_, err := s.Release(t.Context(), "new", given.Token.Text(), 0)
			return err == nil
		})
		if _, g := eventually(t, s, "new"); g.Fence == 0 {
			t.Errorf("%s: a grant without a fence", what)
		}
	}
	if _, err := leases.Extend(t.Context(), "held", ofLeases.Token.Text(), ofLeases.TTL); err != nil {
		t.Errorf("the lease after the backup: %v", err)
	}
}
