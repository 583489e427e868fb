package advisory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// A process of the server is killed. It has nothing to do with the lock, but the server drops all
// connections, and all advisory locks end with them.
func TestUnrelatedBackendKilled(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := postgres.own(t)
	a, b := postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), "")
	g := take(t, a, request("job"))
	if err := syscall.Kill(ask[int](t, postgres.db(t, srv.URL()), "SELECT pg_backend_pid()"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ends(t, g.Bound)
	_, later := eventually(t, b, "job")
	safety.Rises(t, later.Fence, g.Fence)
}

// The session of a holder does not answer a release, so the store gives up the connection. While
// that session still has the lock, the next release does not report the lock as free.
func TestReleaseInAStuckSession(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := postgres.own(t)
	a, b := postgres.mustOpen(t, srv.URL(), "loss-delay=6s"), postgres.mustOpen(t, srv.URL(), "")
	r := request("job")
	take(t, a, r)
	pid := ask[int](t, postgres.db(t, srv.URL()), "SELECT pid FROM "+advisoryLocks)
	server.StopProcess(t, pid)
	for range 2 {
		if out, err := a.Release(t.Context(), "job", r.Token.Text(), 0); !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Release while the session has the lock: %v, %v", out, err)
		}
	}
	refused(t, b, request("job"))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, "the session is gone", func() bool {
		_, err := a.Release(t.Context(), "job", r.Token.Text(), 0)
		return err == nil
	})
	take(t, b, request("job"))
}

// Two readers hold the lock, and a writer waits. When one reader has gone, the other one is promoted
// and demoted all the same.
func TestPromotionPastAWaitingWriter(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	a, b, c := postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), "")
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
	postgres.queued(t, postgres.db(t, srv.URL()), 1)
	release(t, b, second)
	for _, shared := range []bool{false, true} {
		first.Shared = shared
		if _, err := a.(driver.Converter).Convert(t.Context(), first); err != nil {
			t.Fatalf("Convert to shared %v, a writer waiting: %v", shared, err)
		}
	}
}

// A promotion that is granted at the moment of its time-out is not forgotten: after a refusal the
// session has no exclusive lock.
func TestPromotionAtTheTimeOut(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	a, b, c := postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), "")
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
		a.(driver.Converter).Convert(t.Context(), write) // sets the intent, so the next Convert waits for the lock alone
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-time.After(18*time.Millisecond + mathrand.N(4*time.Millisecond))
			b.Release(t.Context(), "job", second.Token.Text(), 0)
		}()
		_, err := a.(driver.Converter).Convert(t.Context(), write)
		<-done
		switch {
		case err == nil:
			granted++
			refused(t, c, reader("job"))
		case errors.Is(err, driver.ErrHeld):
			if _, err := a.(driver.Converter).Convert(t.Context(), first); err != nil {
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
	if n := ask[int](t, postgres.db(t, srv.URL()), postgres.locks); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A machine vanishes behind a proxy or a pooler: nothing arrives from it any more, and the server's
// own connection stays open. The server frees the lock of that machine.
func TestVanishedMachine(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := postgres.own(t)
	for name, next := range map[string]*server.Server{"proxy": srv, "pooler": server.PgBouncer(t, srv, "session")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := server.NewProxy(t, next.Addr())
			a := postgres.mustOpen(t, strings.Replace(next.URL(), next.Addr(), proxy.Addr(), 1), "loss-delay=4s")
			b := postgres.mustOpen(t, srv.URL(), "")
			g := take(t, a, request(name))
			refused(t, b, request(name))
			proxy.Silence(true)
			eventually(t, b, name)
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
	srv := postgres.shared(t)
	s := postgres.mustOpen(t, srv.URL(), "loss-delay=4s")
	tried, waited := request("tried"), request("waited")
	take(t, s, tried)
	if g, err := s.Wait(t.Context(), waited, true); g.TTL == 0 || err != nil {
		t.Fatalf("Wait for a free name: %+v, %v", g, err)
	}
	take(t, s, waited)
	db := postgres.db(t, srv.URL())
	const latePings = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND datname = current_database() AND state_change > backend_start + '10s'"
	until(t, "a ping 10 s after each session began, longer than the server lets it be idle", func() bool {
		return ask[int](t, db, latePings) == 2
	})
	release(t, s, tried)
	release(t, s, waited)
}

// Readers of one process never overtake a writer that waits in the server's queue.
func TestReadersOfOneProcess(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	a, b := postgres.mustOpen(t, srv.URL(), ""), postgres.mustOpen(t, srv.URL(), "")
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
	db := postgres.db(t, srv.URL())
	postgres.queued(t, db, 1)
	refused(t, a, reader("job"))
	cancel()
	<-waited
	for i, r := range all {
		release(t, a, r)
		if i < len(all)-1 {
			refused(t, b, request("job"))
		}
	}
	eventually(t, b, "job")
}

// The server ends the session of a waiter after it has granted the lock, and before the waiter has
// its fence. The lock is free again, so the waiter has nothing and may ask again.
func TestSessionEndsBeforeTheFence(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	s, db := postgres.mustOpen(t, srv.URL(), "loss-delay=60s"), postgres.db(t, srv.URL())
	all := []driver.Request{request("writer"), reader("reader")}
	for _, r := range all {
		take(t, s, r)
		release(t, s, r)
	}
	rows, err := db.BeginTx(t.Context(), nil)
	noError(t, err)
	defer rows.Rollback()
	_, err = rows.Exec("SELECT * FROM padlock_fences WHERE name IN ('writer', 'reader') FOR UPDATE")
	noError(t, err)
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
		until(t, "the waiter mints its fence", func() bool { return ask[int](t, db, "SELECT count(*)"+mints) == 1 })
		ask[bool](t, db, "SELECT pg_terminate_backend(pid)"+mints)
		if w := <-done; w.g != (driver.Grant{}) || w.err != nil {
			t.Errorf("Wait of a %s: %+v, %v", r.Name, w.g, w.err)
		}
	}
}

// No error of a connection shows the user or the password, whatever the server does.
func TestErrorsWithoutLogin(t *testing.T) {
	t.Parallel()
	replies := map[string]string{
		"closes the connection": "",
		"is no PostgreSQL":      "HTTP/1.1 400 Bad Request\r\n\r\n",
		"repeats the user":      "E\x00\x00\x00\x34SFATAL\x00C28000\x00Mno login for 'canary-user'.....\x00\x00",
	}
	for what, reply := range replies {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 1024))
				io.WriteString(c, reply)
				c.Close()
			}
		}()
		_, err = postgres.openURL(t.Context(), parsed("postgres+advisory://canary-user:canary-password@"+ln.Addr().String()+"/shop?sslmode=disable"))
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "canary") {
			t.Errorf("a server that %s: %v", what, err)
		}
	}
}

// Two users whose search paths differ share the table of fences.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	db := postgres.db(t, srv.URL())
	a, b := strings.ToLower("a"+rand.Text()), strings.ToLower("b"+rand.Text())
	run(t, db, "CREATE SCHEMA a", "CREATE SCHEMA b", "CREATE ROLE "+a+" LOGIN SUPERUSER", "CREATE ROLE "+b+" LOGIN SUPERUSER",
		"ALTER ROLE "+a+" SET search_path = a, public", "ALTER ROLE "+b+" SET search_path = b")
	last := uint64(0)
	for _, user := range []string{a, b, a} {
		s, r := postgres.mustOpen(t, strings.Replace(srv.URL(), "postgres@", user+"@", 1), ""), request("job")
		if last == 0 {
			r.FenceAbove = uint64(time.Now().Add(time.Hour).UnixMicro()) // a second table would give a lower fence
		}
		g := take(t, s, r)
		safety.Rises(t, g.Fence, last, user)
		last = g.Fence
		release(t, s, r)
	}
	if n := ask[int](t, db, "SELECT count(*) FROM pg_class WHERE relname = 'padlock_fences'"); n != 1 {
		t.Errorf("there are %d tables of fences", n)
	}
}

// A name of another namespace, and of another database, is another lock.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	for _, pair := range [][2]string{{"", "a"}, {"a", "b"}} {
		a := postgres.mustOpen(t, srv.URL(), "namespace="+pair[0])
		b := postgres.mustOpen(t, srv.URL(), "namespace="+pair[1])
		r, o := request("job"), request("job")
		take(t, a, r)
		take(t, b, o)
		release(t, a, r)
		release(t, b, o)
	}
}
