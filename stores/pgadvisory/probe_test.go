package pgadvisory

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Extend asks the server whether the session still has the lock. An advisory lock can be lost while
// its session lives, for example if a pooler resets the session.
func TestLockLostInALiveSession(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	config, err := pgx.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := driver.Request{Name: "job", Token: driver.TokenOf("a"), TTL: driver.MinTTL}
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Extend(t.Context(), "job", "a", 0); err != nil {
		t.Errorf("Extend of a hold: %v", err)
	}
	if _, err := advisory.Ask(t.Context(), s.inner, func(c *conn) (bool, error) {
		return c.isTrue(&statement{"reset", "SELECT pg_advisory_unlock_all() IS NOT NULL"})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Extend(t.Context(), "job", "a", 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of a lock that the session does not have: %v", err)
	}
	if g.Bound.Err() == nil {
		t.Error("the holder did not learn of the loss")
	}
}
