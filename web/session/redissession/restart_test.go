package redissession_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/redissession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// startAOF starts a server that keeps its data when it is restarted properly.
func startAOF(t *testing.T) *server.Server {
	t.Helper()
	return server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
}

// restart shuts the server down properly and starts it again.
func restart(srv *server.Server) {
	srv.Stop()
	srv.Restart(true)
}

// TestRestart: after a proper restart of the server, the sessions are there and can be written at
// once. This holds in every mode, whatever the lock store has noticed of the restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive} {
		for store, open := range stores {
			t.Run(name+"/"+store, func(t *testing.T) {
				t.Parallel()
				srv := startAOF(t)
				o := clientOption(srv.Addr())
				c := serve(t, load.Handler(newManager(t, open(newRedis(t, dial(t, o))), newLocker(t, o, redissession.Locks()...)), mode))
				noError(t, c.Start(t.Context()))
				restart(srv)
				began := time.Now()
				eventually(t, "a session is written", func() bool {
					a, err := c.Get(t.Context(), 0, "/set?key=k0&work=0s")
					return err == nil && a.Status == http.StatusOK
				})
				t.Logf("the first write was saved after %v", time.Since(began))
				eventually(t, "what was written is read", func() bool {
					n, err := c.Kept(t.Context(), 1)
					return n == 1 && err == nil
				})
				eventually(t, "the visitor is logged out", func() bool {
					a, err := c.Get(t.Context(), 0, "/logout")
					return err == nil && a.Status == http.StatusOK
				})
			})
		}
	}
}

// TestRestartWithPHP: only PHP's lock protects the data that Go writes. So after a restart, Go
// waits until PHP's earlier requests must have ended, but no longer.
func TestRestartWithPHP(t *testing.T) {
	t.Parallel()
	srv := startAOF(t)
	l := newLocker(t, clientOption(srv.Addr()), redissession.PHPLocks()...)
	take := func() error {
		lock, err := l.TryAcquire(t.Context(), "PHPREDIS_SESSION:x_LOCK")
		if err == nil {
			noError(t, lock.Release())
		}
		return err
	}
	noError(t, take())
	restart(srv)
	in := regexp.MustCompile(`restarted .* in ([0-9hms.]+) \(restart guard\)`)
	var said []string
	eventually(t, "the guard acts", func() bool {
		if err := take(); err != nil {
			said = in.FindStringSubmatch(err.Error())
		}
		return said != nil
	})
	const longest = 38 * time.Second
	if d, err := time.ParseDuration(said[1]); err != nil || d > longest {
		t.Errorf("%q: it withholds locks for %v, %v; want at most %v", said[0], d, err, longest)
	}
}

// TestLeasesFitTheGuard: a Locker with the default lease works on the stores,
// and one whose lease the guard does not cover is refused.
func TestLeasesFitTheGuard(t *testing.T) {
	t.Parallel()
	o := clientOption(startRedis(t).Addr())
	l := newLocker(t, o, redissession.PHPLocks()...)
	lock, err := l.Acquire(t.Context(), "a_LOCK")
	noError(t, err)
	noError(t, lock.Release())
	if lock, err := l.Acquire(t.Context(), "a_LOCK", padlock.TTL(time.Minute)); err == nil {
		lock.Release()
		t.Error("PHPLocks allow a lease that is longer than the guard")
	}
	own := newLocker(t, o, redissession.Locks()...)
	g, err := own.Acquire(context.Background(), "b", padlock.TTL(50*time.Second))
	noError(t, err)
	noError(t, g.Release())
}

// TestFrozenServer checks that a request without a deadline of its own does not wait for as long as
// the client would.
func TestFrozenServer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := startRedis(t)
	r := newRedis(t, dial(t, clientOption(srv.Addr())))
	_, err := r.Sessions().Commit(t.Context(), "id", sessionstore.Change{Create: true})
	noError(t, err)
	srv.Pause()
	t.Cleanup(srv.Resume)
	if _, err := r.Sessions().Load(t.Context(), "id"); !errors.Is(err, session.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load: %v", err)
	}
	if err := r.Sessions().Touch(t.Context(), "id", time.Hour); err == nil || errors.Is(err, session.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Touch, of which nobody knows whether it was done: %v", err)
	}
}
