package pgadvisory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// locks counts the advisory locks of sessions of padlock.
const locks = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE locktype = 'advisory' AND datname = current_database() AND application_name LIKE 'padlock %'"

// A process of the server is killed. It has nothing to do with the lock, but the server drops all
// connections, and all advisory locks end with them.
func TestUnrelatedBackendKilled(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	a, b := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	g := take(t, a, request("job"))
	if err := syscall.Kill(readValue[int](t, connect(t, srv.URL()), "SELECT pg_backend_pid()"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, g.Bound)
	if _, later := untilGranted(t, b, "job"); later.Fence <= g.Fence {
		t.Errorf("SAFETY: the fence was %d, and is %d after the crash", g.Fence, later.Fence)
	}
}

// pg_terminate_backend is noticed at once, and ends the hold.
func TestTerminatedBackend(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b := mustOpen(t, srv.URL(), pgadvisory.LossDelay(time.Hour)), mustOpen(t, srv.URL())
	r := request("job")
	g := take(t, a, r)
	readValue[bool](t, connect(t, srv.URL()), "SELECT pg_terminate_backend(pid) FROM "+advisoryLocks)
	awaitEnd(t, g.Bound)
	if _, err := a.Extend(t.Context(), "job", r.Token, 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend: %v", err)
	}
	untilGranted(t, b, "job")
	if out, err := a.Release(t.Context(), "job", r.Token, 0); out != driver.OutcomeGone || err != nil {
		t.Errorf("Release: %v, %v", out, err)
	}
}

// The session of a holder does not answer a release, so the store gives up the connection. While
// that session still has the lock, the next release does not report the lock as free.
func TestReleaseInAStuckSession(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	a, b := mustOpen(t, srv.URL(), pgadvisory.LossDelay(6*time.Second)), mustOpen(t, srv.URL())
	r := request("job")
	take(t, a, r)
	pid := readValue[int](t, connect(t, srv.URL()), "SELECT pid FROM "+advisoryLocks)
	server.StopProcess(t, pid)
	for range 2 {
		if out, err := a.Release(t.Context(), "job", r.Token, 0); !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Release while the session has the lock: %v, %v", out, err)
		}
	}
	refused(t, b, request("job"))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	untilTrue(t, "the session is gone", func() bool {
		_, err := a.Release(t.Context(), "job", r.Token, 0)
		return err == nil
	})
	take(t, b, request("job"))
}

// Two readers hold the lock, and a writer waits. When one reader has gone, the other one is promoted
// and demoted all the same.
func TestPromotionPastAWaitingWriter(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b, c := mustOpen(t, srv.URL()), mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	first, second := reader("job"), reader("job")
	take(t, a, first)
	take(t, b, second)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := c.Wait(ctx, request("job"), true)
		waited <- err
	}()
	defer func() { cancel(); <-waited }()
	queued(t, connect(t, srv.URL()))
	release(t, b, second)
	for _, shared := range []bool{false, true} {
		first.Shared = shared
		if _, err := a.Convert(t.Context(), first); err != nil {
			t.Fatalf("Convert to shared %v, a writer waiting: %v", shared, err)
		}
	}
}

// A promotion that is granted at the moment of its time-out is not forgotten: after a refusal the
// session has no exclusive lock.
func TestPromotionAtTheTimeOut(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b, c := mustOpen(t, srv.URL()), mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	granted, rounds := 0, 10
	if server.IsThorough() {
		rounds = 40
	}
	for range rounds {
		first, second := reader("job"), reader("job")
		take(t, a, first)
		take(t, b, second)
		write := first
		write.Shared = false
		a.Convert(t.Context(), write) // sets the intent, so the next Convert waits for the lock alone
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-time.After(18*time.Millisecond + rand.N(4*time.Millisecond))
			b.Release(t.Context(), "job", second.Token, 0)
		}()
		_, err := a.Convert(t.Context(), write)
		<-done
		switch {
		case err == nil:
			granted++
			refused(t, c, reader("job"))
		case errors.Is(err, driver.ErrHeld):
			if _, err := a.Convert(t.Context(), first); err != nil {
				t.Fatalf("withdrawal of the intent: %v", err)
			}
			r := reader("job")
			take(t, c, r)
			release(t, c, r)
		default:
			t.Fatalf("Convert: %v", err)
		}
		release(t, a, first)
	}
	t.Logf("%d of %d were granted", granted, rounds)
	if n := readValue[int](t, connect(t, srv.URL()), locks); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// The server frees the locks of a process that was killed.
func TestHolderKilled(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	s := mustOpen(t, srv.URL())
	holder := startChild(t, "hold", srv.URL())
	if held := refused(t, s, request("job")); len(held.Holds) != 1 || held.Holds[0].PID != holder.Process.Pid {
		t.Errorf("process %d has the lock; the error says %+v", holder.Process.Pid, held.Holds)
	}
	holder.Process.Kill()
	untilGranted(t, s, "job")
}

// A machine vanishes behind a proxy or a pooler: nothing arrives from it any more, and the server's
// own connection stays open. The server frees the lock of that machine.
func TestVanishedMachine(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	for name, next := range map[string]*server.Server{"proxy": srv, "pooler": server.PgBouncer(t, srv, "session")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := server.NewProxy(t, next.Addr())
			a := mustOpen(t, strings.Replace(next.URL(), next.Addr(), proxy.Addr(), 1), pgadvisory.LossDelay(4*time.Second))
			b := mustOpen(t, srv.URL())
			g := take(t, a, request(name))
			refused(t, b, request(name))
			proxy.Silence(true)
			untilGranted(t, b, name)
			if g.Bound.Err() == nil {
				t.Error("another process has the lock, and its holder did not learn of the loss")
			}
		})
	}
}

// The server does not end the sessions of holders that have nothing to do, because the store pings
// the server often enough. One of the holders waited for its lock.
func TestIdleHolders(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	s := mustOpen(t, srv.URL(), pgadvisory.LossDelay(4*time.Second))
	tried, waited := request("tried"), request("waited")
	take(t, s, tried)
	if g, err := s.Wait(t.Context(), waited, true); g.TTL == 0 || err != nil {
		t.Fatalf("Wait for a free name: %+v, %v", g, err)
	}
	take(t, s, waited)
	conn := connect(t, srv.URL())
	const latePings = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND datname = current_database() AND state_change > backend_start + '10s'"
	untilTrue(t, "a ping 10 s after each session began, longer than the server lets it be idle", func() bool {
		return readValue[int](t, conn, latePings) == 2
	})
	release(t, s, tried)
	release(t, s, waited)
}

// A process is stopped while it waits. The server grants it the lock, and later takes the lock
// back.
func TestWaiterStopped(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	s := mustOpen(t, srv.URL())
	r := request("job")
	take(t, s, r)
	waiter := startChild(t, "wait", srv.URL())
	conn := connect(t, srv.URL())
	queued(t, conn)
	server.StopProcess(t, waiter.Process.Pid)
	release(t, s, r)
	untilGranted(t, s, "job")
}

// A wait that is cancelled leaves nothing in the server's queue.
func TestCancelledWaits(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	r := request("job")
	take(t, a, r)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
		if _, err := b.Wait(ctx, request("job"), true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		cancel()
	}
	release(t, a, r)
	conn := connect(t, srv.URL())
	untilTrue(t, "no lock is left", func() bool { return readValue[int](t, conn, locks) == 0 })
}

// Readers of one process never overtake a writer that waits in the server's queue.
func TestReadersOfOneProcess(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	var all []driver.Request
	for range 10 {
		r := reader("job")
		take(t, a, r)
		all = append(all, r)
	}
	refused(t, b, request("job"))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := b.Wait(ctx, request("job"), true)
		waited <- err
	}()
	conn := connect(t, srv.URL())
	queued(t, conn)
	refused(t, a, reader("job"))
	cancel()
	<-waited
	for i, r := range all {
		release(t, a, r)
		if i < len(all)-1 {
			refused(t, b, request("job"))
		}
	}
	untilGranted(t, b, "job")
}

// The server ends the session of a waiter after it has granted the lock, and before the waiter has
// its fence. The lock is free again, so the waiter has nothing and may ask again.
func TestSessionEndsBeforeTheFence(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	s, conn := mustOpen(t, srv.URL(), pgadvisory.LossDelay(time.Minute)), connect(t, srv.URL())
	all := []driver.Request{request("writer"), reader("reader")}
	for _, r := range all {
		take(t, s, r)
		release(t, s, r)
	}
	rows := connect(t, srv.URL())
	if _, err := rows.Exec(t.Context(), "BEGIN; SELECT * FROM padlock_fences WHERE name IN ('writer', 'reader') FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		type result struct {
			g   driver.Grant
			err error
		}
		done := make(chan result, 1)
		go func() {
			g, err := s.Wait(t.Context(), r, true)
			done <- result{g, err}
		}()
		const mints = " FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'padlock %' AND wait_event_type = 'Lock'"
		untilTrue(t, "the waiter mints its fence", func() bool { return readValue[int](t, conn, "SELECT count(*)"+mints) == 1 })
		readValue[bool](t, conn, "SELECT pg_terminate_backend(pid)"+mints)
		if w := <-done; w.g != (driver.Grant{}) || w.err != nil {
			t.Errorf("Wait of a %s: %+v, %v", r.Name, w.g, w.err)
		}
	}
}
