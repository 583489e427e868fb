package pgadvisory_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The row of a held name is gone, as after a restore of the table. A fence that is raised is
// remembered all the same.
func TestRaiseFenceWithoutARow(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	s, r := mustOpen(t, srv.URL()), request("job")
	raised := take(t, s, r).Fence + 1_000_000_000_000 // eleven days ahead of the clock
	execute(t, connect(t, srv.URL()), "DELETE FROM padlock_fences")
	if err := s.RaiseFence(t.Context(), "job", r.Token, raised); err != nil {
		t.Fatal(err)
	}
	release(t, s, r)
	if g := take(t, s, request("job")); g.Fence <= raised {
		t.Errorf("SAFETY: fence %d after %d", g.Fence, raised)
	}
}

// The server loses the table of fences while a waiter is in its queue. The waiter gets the lock and
// a fence all the same, because the store makes the table again.
func TestTableLostWhileWaiting(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	first, second := request("job"), request("job")
	g := take(t, a, first)
	type result struct {
		g   driver.Grant
		err error
	}
	done := make(chan result, 1)
	go func() {
		g, err := b.Wait(t.Context(), second, true)
		done <- result{g, err}
	}()
	conn := connect(t, srv.URL())
	queued(t, conn)
	execute(t, conn, "DROP TABLE padlock_fences")
	release(t, a, first)
	w := <-done
	if w.err != nil || w.g.Fence <= g.Fence {
		t.Errorf("Wait: %+v, %v; want a reservation with a fence above %d", w.g, w.err, g.Fence)
	}
}
