package pgadvisory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// This test is about the probe alone. (Today's poolers also return errors for prepared statements.)
// The probe finds a pooler in transaction mode if a second connection gets the session of the first
// one, in any of several tries. Otherwise, the mode stays unknown, and each later connection is
// compared with all live connections.
func TestProbe(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	config, err := pgconn.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	d := &dialer{server: config, cfg: &c}
	connect := func() *conn {
		t.Helper()
		made, err := d.openConn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Close)
		return made
	}
	// same makes the second connections. The one with the given number has the session of c.
	same := func(c *conn, number int) {
		tries := 0
		d.second = func(ctx context.Context) (*conn, error) {
			second, err := d.openConn(ctx)
			if tries++; err == nil && tries == number {
				second.pid, second.start = c.pid, c.start
			}
			return second, err
		}
	}
	for number, found := range map[int]bool{1: true, 3: true, 4: false} {
		first := connect()
		first.pooled = true
		same(first, number)
		if err := d.checkPooler(t.Context(), first, nil); errors.Is(err, errTransactionMode) != found || !found && err != nil {
			t.Errorf("the session is shared at try %d: %v", number, err)
		}
	}
	direct := connect()
	same(direct, 1)
	if err := d.checkPooler(t.Context(), direct, nil); err != nil {
		t.Errorf("a connection without a pooler: %v", err)
	}

	first, later := connect(), connect()
	live := []*conn{first}
	later.pid = first.pid // the number is used again, by a process that started at another time
	if err := d.checkPooler(t.Context(), later, live); err != nil || !first.alive() {
		t.Errorf("another process with the number of an earlier one: %v", err)
	}
	later.start = first.start
	if err := d.checkPooler(t.Context(), later, live); !errors.Is(err, errTransactionMode) {
		t.Errorf("two connections have one session: %v", err)
	}
	if first.alive() || !errors.Is(context.Cause(first.bound), errTransactionMode) {
		t.Error("the holds of the first connection are not lost")
	}
}

// A connection may end before its goroutine runs Watch. A statement that ends at that time calls
// nudge. This call must not wait for the goroutine, which may have ended.
func TestNudgeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		cfg := defaults()
		c := newConn(nil, &cfg)
		c.end(errors.New("the server has ended the session"))
		c.nudge() // as after the statements that set the session up
		c.Watch()
		c.nudge()
	})
}

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
	r := driver.Request{Name: "job", Token: "a", TTL: driver.MinTTL}
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
