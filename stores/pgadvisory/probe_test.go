package pgadvisory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/padlock-go/padlock/internal/server"
)

// This test is about the probe alone. (Today's poolers also return errors for prepared statements.)
// The probe finds a pooler in transaction mode if a second connection gets the session of the first
// one, in any of several tries. Otherwise, the mode stays unknown, and each later connection is
// compared with all live connections.
func TestProbe(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	config, err := pgconn.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	var live []*conn
	d := &dialer{server: config, cfg: &c, live: func() []*conn { return live }}
	connect := func() *conn {
		t.Helper()
		made, err := d.openConn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.closeConn)
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
		if err := d.checkPooler(t.Context(), first); errors.Is(err, errTransactionMode) != found || !found && err != nil {
			t.Errorf("the session is shared at try %d: %v", number, err)
		}
	}
	direct := connect()
	same(direct, 1)
	if err := d.checkPooler(t.Context(), direct); err != nil {
		t.Errorf("a connection without a pooler: %v", err)
	}

	first, later := connect(), connect()
	live = []*conn{first}
	later.pid = first.pid // the number is used again, by a process that started at another time
	if err := d.checkPooler(t.Context(), later); err != nil || !first.alive() {
		t.Errorf("another process with the number of an earlier one: %v", err)
	}
	later.start = first.start
	if err := d.checkPooler(t.Context(), later); !errors.Is(err, errTransactionMode) {
		t.Errorf("two connections have one session: %v", err)
	}
	if first.alive() || !errors.Is(context.Cause(first.bound), errTransactionMode) {
		t.Error("the holds of the first connection are not lost")
	}
}

// A connection may end before its goroutine runs watch. Even then, dial calls nudge. This call must
// not wait for the goroutine, which may have ended, because dial holds the mutex of the pool.
func TestNudgeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		cfg := defaults()
		c := newConn(nil, &cfg)
		c.end(errors.New("the server has ended the session"))
		c.nudge() // as after the statements that set the session up
		c.watch()
		c.nudge()
	})
}
