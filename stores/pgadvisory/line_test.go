package pgadvisory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// A process has 8 sessions for waiters. A waiter that finds all of them used keeps its place, and
// gets the first session that becomes free. While its lock is held, its Wait does not return.
func TestWaiterBehindTheEighth(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b, conn := mustOpen(t, srv.URL()), mustOpen(t, srv.URL()), connect(t, srv.URL())
	const waiting = "SELECT count(*) FROM " + advisoryLocks + " AND NOT granted"
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	first, leave := context.WithCancel(ctx)
	for i := range 8 {
		name, until := fmt.Sprint("job ", i), ctx
		if i == 0 {
			until = first
		}
		take(t, a, request(name))
		waiters.Go(func() { b.Wait(until, request(name), true) })
	}
	untilTrue(t, "8 waiters in the queue", func() bool { return readValue[int](t, conn, waiting) == 8 })
	last := request("last")
	take(t, a, last)
	type result struct {
		g   driver.Grant
		err error
	}
	ninth, r := make(chan result, 1), request("last")
	waiters.Go(func() {
		g, err := b.Wait(ctx, r, true)
		ninth <- result{g, err}
	})
	const looks = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%count(*) = 0 FROM pg_locks%' AND pid <> pg_backend_pid()"
	untilTrue(t, "the ninth waiter looks at its lock", func() bool { return len(ninth) > 0 || readValue[int](t, conn, looks) > 0 })
	leave()
	key, err := b.Location("last")
	if err != nil {
		t.Fatal(err)
	}
	untilTrue(t, "the ninth waiter in the queue", func() bool {
		return len(ninth) > 0 || readValue[int](t, conn, waiting+" AND classid::bigint << 32 | objid::bigint = "+key) == 1
	})
	if len(ninth) > 0 {
		t.Fatalf("Wait returned although the lock is held: %+v", <-ninth)
	}
	release(t, a, last)
	if w := <-ninth; w.err != nil {
		t.Errorf("Wait: %v", w.err)
	} else if w.g.TTL == 0 {
		reserve(t, b, r) // a busy machine was so slow that the server ended the session
	}
}
