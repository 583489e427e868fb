package redisstore_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// The stores of these tests allow leases of an hour. So if the restart guard acts, it acts for an
// hour, and no test can miss it.

// wantLocks takes a lock as soon as the servers answer. The restart guard must not refuse it.
func wantLocks(t *testing.T, s driver.Store, name, when string) {
	t.Helper()
	eventually(t, "a lock "+when, func() bool {
		_, err := s.Acquire(t.Context(), request(name))
		if err != nil && strings.Contains(err.Error(), "restart guard") {
			t.Fatalf("Acquire %s: %v", when, err)
		}
		return err == nil
	})
}

// wantGuard waits until a server answers. The restart guard must refuse every lock.
func wantGuard(t *testing.T, s driver.Store, name, when string) {
	t.Helper()
	eventually(t, "an answer "+when, func() bool {
		_, err := s.Acquire(t.Context(), request(name))
		if err == nil {
			safety.TooEarly(t, "a lock was granted %s", when)
			t.FailNow()
		}
		return strings.Contains(err.Error(), "restart guard")
	})
}

// becomes waits until srv has the given role and, as a replica, all data of its primary.
func becomes(t *testing.T, srv *server.Server, role string) {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	eventually(t, "the server becomes "+role, func() bool {
		info, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		return err == nil && strings.Contains(info, "role:"+role) && (role == "master" || strings.Contains(info, "master_link_status:up"))
	})
}

// movesTo waits until the store has checked the server to which it has moved.
func movesTo(t *testing.T, s driver.Reporter, srv *server.Server) {
	t.Helper()
	id := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(ask(t, srv, "INFO", "server"))[1]
	eventually(t, "the store moves to the other server", func() bool {
		found, err := s.Status(t.Context())
		return err == nil && finding(found, "run-id").Value == id
	})
}

// failOver makes the sentinel move the primary to another server.
func failOver(t *testing.T, watch, to *server.Server) {
	t.Helper()
	c := rawClient(t, single(watch.Addr()))
	eventually(t, "the sentinel begins a failover", func() bool {
		return c.Do(t.Context(), c.B().Arbitrary("SENTINEL", "FAILOVER", "main").Build()).Error() == nil
	})
	becomes(t, to, "master")
}

func openedURL(t *testing.T, raw string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := fromURL(raw, opts...)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*redisstore.Store)
}

// TestPlannedFailoverBack is a rolling restart behind Sentinel: failover, restart of the old
// primary as a replica, failover back. The restarted server has the data of the other one.
func TestPlannedFailoverBack(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	a, b, watch := sentinel(t)
	kept := redisstore.RememberRunIDs(redisstore.RunIDDir(t.TempDir()))
	address := "redis+sentinel://" + watch.Addr() + "/main"
	s := openedURL(t, address, redisstore.MaxTTL(time.Hour), kept)
	before := request("before")
	take(t, s, before)
	eventually(t, "the replica has the lock", func() bool { return ask(t, b, "EXISTS", before.Name) == "1" })
	failOver(t, watch, b)
	movesTo(t, s, b)
	wantLocks(t, s, "between", "after the failover")
	a.Restart(false)
	c := rawClient(t, single(a.Addr()))
	eventually(t, "the server becomes a replica", func() bool { // the sentinel may be quicker
		return c.Do(t.Context(), c.B().Arbitrary("REPLICAOF", "127.0.0.1", portOf(b)).Build()).Error() == nil
	})
	becomes(t, a, "slave")
	during := request("while A is a replica")
	take(t, s, during)
	// The link of a replica can be up before it gets the first changes (diskless synchronization).
	eventually(t, "the replica has the lock", func() bool { return ask(t, a, "EXISTS", during.Name) == "1" })
	failOver(t, watch, a)
	movesTo(t, s, a)
	wantLocks(t, s, "after", "after the failover back")
	// A process that begins now knows the servers from the memory of earlier ones.
	wantLocks(t, openedURL(t, address, redisstore.MaxTTL(time.Hour), kept), "new", "in a new process")
	if _, err := s.Extend(t.Context(), before.Name, before.Token.Text(), before.TTL); err != nil {
		t.Errorf("the lock of before the restart: %v", err)
	}
}

// TestRollingRestartOfACluster is the same with CLUSTER FAILOVER.
func TestRollingRestartOfACluster(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	a := nodes[0]
	b := server.RedisClusterReplica(t, nodes, 0)
	name := ""
	for i := 0; name == ""; i++ {
		if c := "job" + strconv.Itoa(i); ownsSlot(t, a, c) {
			name = c
		}
	}
	s := openedURL(t, "redis+cluster://"+nodes[1].Addr(), redisstore.MaxTTL(time.Hour))
	tagged := func(n string) string { return "{" + name + "}" + n } // all in one slot
	wantLocks(t, s, tagged("before"), "before the restart")
	ask(t, b, "CLUSTER", "FAILOVER")
	becomes(t, b, "master")
	wantLocks(t, s, tagged("between"), "after the failover")
	a.Restart(true)
	becomes(t, a, "slave")
	wantLocks(t, s, tagged("while A is a replica"), "while A is a replica")
	ask(t, a, "CLUSTER", "FAILOVER")
	becomes(t, a, "master")
	wantLocks(t, s, tagged("after"), "after the failover back")
}

// TestGuardAfterALoadedSnapshot restarts a primary that has replicas and a snapshot. Redis 7 then
// has a second replication id, as after a promotion, but it has lost the last locks.
func TestGuardAfterALoadedSnapshot(t *testing.T) {
	t.Parallel()
	a, _, _ := sentinel(t)
	s := opened(t, a.Addr(), redisstore.MaxTTL(time.Hour))
	take(t, s, request("saved"))
	save(t, a)
	take(t, s, request("lost"))
	if err := a.Crash(true); err != nil {
		t.Fatal(err)
	}
	wantGuard(t, s, "lost", "by a server that has lost it")
	take(t, opened(t, a.Addr()), request("lost")) // the server has indeed lost it
}

// TestGuardAfterAPromotionWithoutData restarts a server as a replica of a dead primary and promotes
// it. Its snapshot names the replication id that the process knows, but it has lost the last locks.
func TestGuardAfterAPromotionWithoutData(t *testing.T) {
	t.Parallel()
	a, b, watch := sentinel(t)
	watch.Kill()
	a.Kill()
	ask(t, b, "REPLICAOF", "NO", "ONE")
	s := opened(t, b.Addr(), redisstore.MaxTTL(time.Hour))
	take(t, s, request("saved"))
	save(t, b)
	take(t, s, request("lost"))
	if err := b.Crash(true); err != nil { // its arguments make it a replica of a
		t.Fatal(err)
	}
	if info := ask(t, b, "INFO", "replication"); !strings.Contains(info, "role:slave") {
		t.Fatalf("the server came back as no replica: %s", info)
	}
	ask(t, b, "REPLICAOF", "NO", "ONE")
	wantGuard(t, s, "lost", "by a server that has lost it")
	take(t, opened(t, b.Addr()), request("lost")) // the server has indeed lost it
}

// TestGuardLastsOverAFailover: the primary restarts without its data before the sentinel notices,
// and its replica takes over this empty state. Then a failover makes the replica the primary. It
// did not restart, but it has lost the locks too.
func TestGuardLastsOverAFailover(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	a, b, watch := sentinel(t)
	s := openedURL(t, "redis+sentinel://"+watch.Addr()+"/main", redisstore.MaxTTL(time.Hour))
	take(t, s, request("lost"))
	a.Restart(false)
	wantGuard(t, s, "lost", "by a server that has lost it")
	eventually(t, "the replica has lost it too", func() bool { return ask(t, b, "EXISTS", "lost") == "0" })
	failOver(t, watch, b)
	movesTo(t, s, b)
	wantGuard(t, s, "lost", "by a replica that has lost it")
	found, err := s.Status(t.Context())
	if err != nil || !strings.Contains(finding(found, "restart-guard").Value, "gives no locks") {
		t.Errorf("Status: %v, %v", found, err)
	}
}

// save makes the server write a snapshot. The server may be writing one for a new replica.
func save(t *testing.T, srv *server.Server) {
	t.Helper()
	eventually(t, "no other snapshot is being written", func() bool {
		return strings.Contains(ask(t, srv, "INFO", "persistence"), "rdb_bgsave_in_progress:0")
	})
	ask(t, srv, "SAVE")
}
