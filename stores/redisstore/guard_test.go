package redisstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestEvictionPolicyIsRefused is T-R4.
func TestEvictionPolicyIsRefused(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"} {
		srv := server.Redis(t, server.RedisOptions{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", policy}})
		_, err := redisstore.Open(t.Context(), at(srv.Addr()))
		wantIs(t, err, driver.ErrUnavailable, "Open with "+policy)
		if !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		s := opened(t, srv.Addr(), redisstore.AllowEviction())
		if g := s.Guarantees(); g.SafeEviction != driver.PromiseNo {
			t.Errorf("SafeEviction is %v with AllowEviction", g.SafeEviction)
		}
		take(t, s, request("a"))

		// If the policy is corrected, the store sees that without a new connection.
		lazy := opened(t, srv.Addr(), redisstore.Lazy())
		_, err = lazy.Acquire(t.Context(), request("b"))
		wantIs(t, err, driver.ErrUnavailable, "Acquire with "+policy)
		ask(t, srv, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		eventually(t, "Acquire after the policy was put right", func() bool {
			_, err := lazy.Acquire(t.Context(), request("b"))
			return err == nil
		})
		srv.Kill()
	}
	srv := server.Redis(t, server.RedisOptions{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	take(t, opened(t, srv.Addr()), request("without a limit nothing is evicted"))
}

// TestRestartGuard is T-R2: after a server has come back empty, processes that knew it before get
// no lock until all earlier leases have ended.
func TestRestartGuard(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	knew := opened(t, srv.Addr(), redisstore.MaxTTL(8*time.Second), redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir())))
	r := request("job")
	r.TTL = 2 * time.Second
	first := take(t, knew, r)
	began := time.Now()
	srv.Kill()
	srv.Restart(false)

	again := request("job")
	again.TTL = 2 * time.Second
	var err error
	eventually(t, "the server is reached", func() bool {
		_, err = knew.Acquire(t.Context(), again)
		return err == nil || strings.Contains(err.Error(), "restart")
	})
	wantIs(t, err, driver.ErrUnavailable, "Acquire after a restart without data")
	if states, err := knew.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("List calls an empty server complete while the guard acts: %v, %v", states, err)
	}
	if _, err := knew.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil {
		t.Errorf("Release while the guard acts: %v", err)
	}
	if err := knew.RaiseFence(t.Context(), r.Name, r.Token.Text(), 1); err == nil {
		t.Error("the hold of before the restart lives on in an empty server")
	}

	other := opened(t, srv.Addr(), redisstore.MaxTTL(8*time.Second), redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir())))
	free(t, other, takeRequest(t, other, "first try on a server that was never seen before"))

	var g driver.Grant
	eventually(t, "the guard lets go", func() bool {
		g, err = knew.Acquire(t.Context(), again)
		return err == nil
	})
	if waited := time.Since(began); waited < 2*time.Second {
		t.Errorf("a lock was given %v after the restart, a lease of 2 s may have been lost", waited)
	}
	safety.Rises(t, g.Fence, first.Fence)
}

func takeRequest(t testing.TB, s driver.Store, name string) driver.Request {
	t.Helper()
	r := request(name)
	r.TTL = 6 * time.Second // the longest lease of TestRestartGuard is 8 s
	take(t, s, r)
	return r
}

// TestRestartGuardKinds opens stores on a server that has just restarted.
func TestRestartGuardKinds(t *testing.T) {
	t.Parallel()
	for _, persist := range []bool{false, true} {
		srv := server.Redis(t, server.RedisOptions{Persist: persist})
		dir := t.TempDir()
		remembers := redisstore.RememberRunIDs(redisstore.RunIDDir(dir))
		opened(t, srv.Addr(), remembers)
		srv.Restart(true)
		for _, row := range []struct {
			name string
			opt  redisstore.Option
			free bool
		}{
			{"strict", redisstore.RestartGuard(redisstore.GuardStrict), persist},
			{"an earlier process knew it", remembers, persist},
			{"an earlier process knew it, and one more", remembers, persist},
			{"nobody knew it", redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir())), true},
			{"off", redisstore.RestartGuard(redisstore.GuardOff), true},
			{"its memory cannot be read", redisstore.RememberRunIDs(redisstore.RunIDDir(brokenDir(t))), persist},
		} {
			s := opened(t, srv.Addr(), row.opt)
			_, err := s.Acquire(t.Context(), request(row.name))
			if (err == nil) != row.free {
				t.Errorf("%s, persistence %v: Acquire after a restart: %v", row.name, persist, err)
			}
			found, err := s.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v := finding(found, "restart-guard").Value; strings.Contains(v, "gives no locks") == row.free {
				t.Errorf("%s, persistence %v: Status says %q", row.name, persist, v)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "redis-*"))
		if err != nil || len(files) != 1 {
			t.Errorf("one server is remembered in %q, %v", files, err)
		}
	}
}

// TestProcessRemembers opens a second store in a process that knows the server.
func TestProcessRemembers(t *testing.T) {
	t.Parallel()
	srv := unknownServer(t)
	srv.Restart(false)
	s, err := redisstore.Open(t.Context(), at(srv.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err = s.Acquire(t.Context(), request("job")); err == nil || !strings.Contains(err.Error(), "restart guard") {
		t.Errorf("Acquire after a restart: %v", err)
	}
}

// TestProcessRemembersWithoutADirectory: if nothing can be written into the directory, the process
// itself remembers what it has seen.
func TestProcessRemembersWithoutADirectory(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	broken := redisstore.RememberRunIDs(redisstore.RunIDDir("/proc/no directory can be made here"))
	seen := opened(t, srv.Addr(), broken)
	takeRequest(t, seen, "job")
	srv.Restart(false)
	for name, s := range map[string]*redisstore.Store{"the store that took the lock": seen, "a second store": opened(t, srv.Addr(), broken)} {
		eventually(t, name+" has connected again", func() bool {
			_, err := s.Acquire(t.Context(), request("job"))
			if err == nil {
				safety.TooEarly(t, "%s: a lock was given after a restart without data", name)
				t.FailNow()
			}
			return strings.Contains(err.Error(), "restart guard")
		})
	}
}

// unknownServer starts a server and opens a store that gives locks there. An earlier test of this
// process may have had a server on the same port, which the process remembers. Then unknownServer
// starts another one.
func unknownServer(t *testing.T) *server.Server {
	t.Helper()
	for range 20 {
		srv := server.Redis(t, server.RedisOptions{})
		s, err := redisstore.Open(t.Context(), at(srv.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Acquire(t.Context(), request("job"))
		if err == nil {
			return srv
		}
		if !strings.Contains(err.Error(), "restart guard") {
			t.Fatal(err)
		}
	}
	t.Fatal("this process knows the ports of 20 servers in a row")
	return nil
}

// brokenDir returns a path at which no directory can be created, and nobody can look for one.
func brokenDir(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "dir")
}

func finding(found []driver.Finding, name string) driver.Finding {
	for _, f := range found {
		if f.Name == name {
			return f
		}
	}
	return driver.Finding{}
}

// TestGuardSeesWhatComesInBetween: the server restarts between the check and the reply to a
// request.
func TestGuardSeesWhatComesInBetween(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	p := server.NewProxy(t, srv.Addr())
	s := opened(t, p.Addr(), redisstore.MaxTTL(time.Hour), redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir())))
	take(t, s, request("before"))
	for range 20 {
		srv.Restart(false)
		g, err := s.Acquire(t.Context(), request("after"))
		if err == nil {
			safety.TooEarly(t, "a server that restarted gave a lock with fence %d", g.Fence)
			t.FailNow()
		}
	}
}

func TestDurableIsChecked(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	_, err := redisstore.Open(t.Context(), at(srv.Addr()), redisstore.Durable())
	wantIs(t, err, driver.ErrUnavailable, "Open of a server without persistence, with Durable")
	srv = server.Redis(t, server.RedisOptions{Persist: true})
	if g := opened(t, srv.Addr(), redisstore.Durable()).Guarantees(); g.SurvivesRestart != driver.PromiseYes {
		t.Errorf("SurvivesRestart is %v with Durable", g.SurvivesRestart)
	}
}

func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	primary := server.Redis(t, server.RedisOptions{})
	replica := server.Redis(t, server.RedisOptions{})
	ask(t, replica, "REPLICAOF", "127.0.0.1", portOf(primary))
	_, err := redisstore.Open(t.Context(), at(replica.Addr()))
	wantIs(t, err, driver.ErrUnavailable, "Open of a replica")
}

func portOf(srv *server.Server) string {
	_, port, _ := strings.Cut(srv.Addr(), ":")
	return port
}

func TestLazy(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	srv.Kill()
	_, err := redisstore.Open(t.Context(), at(srv.Addr()))
	wantIs(t, err, driver.ErrUnavailable, "Open of a server that is down")
	s := opened(t, srv.Addr(), redisstore.Lazy())
	_, err = s.Acquire(t.Context(), request("a"))
	wantIs(t, err, driver.ErrUnavailable, "Acquire of a server that is down")
	srv.Restart(false)
	eventually(t, "Acquire when the server is up", func() bool {
		_, err := s.Acquire(t.Context(), request("a"))
		return err == nil
	})
}

// TestOpenGivesUp: Open returns when its context ends.
func TestOpenGivesUp(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	srv.Pause()
	defer srv.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := redisstore.Open(ctx, at(srv.Addr()))
	wantIs(t, err, context.DeadlineExceeded, "Open of a silent server")
}

// TestGuardOfABusyServer: a server that is too busy to answer INFO has not hidden its run id. When
// it answers again, the guard acts as it does for a server that answered at once.
func TestGuardOfABusyServer(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{Args: []string{"--lua-time-limit", "1"}})
	remembers := redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir()))
	opened(t, srv.Addr(), remembers)
	srv.Restart(true)
	busy, looks := rawClient(t, single(srv.Addr())), rawClient(t, single(srv.Addr()))
	done := make(chan error, 1)
	go func() {
		done <- busy.Do(context.Background(), busy.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
	}()
	eventually(t, "the server is busy", func() bool {
		err := looks.Do(t.Context(), looks.B().Ping().Build()).Error()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	s := opened(t, srv.Addr(), remembers, redisstore.AllowEviction(), redisstore.Lazy())
	_, err := s.Acquire(t.Context(), request("job"))
	wantIs(t, err, driver.ErrUnavailable, "Acquire on a busy server")
	if err := looks.Do(t.Context(), looks.B().Arbitrary("SCRIPT", "KILL").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	<-done
	if _, err := s.Acquire(t.Context(), request("job")); err == nil || !strings.Contains(err.Error(), "restart guard") {
		safety.Broken(t, "Acquire when it answers again: %v, want the restart guard", err)
	}
}
