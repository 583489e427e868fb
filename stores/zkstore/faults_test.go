package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// quick is the tick of servers in tests in which the end of a session matters. Servers end sessions
// at multiples of it.
const quick = 50 * time.Millisecond

// queueOf returns the nodes in the queue of a lock.
func queueOf(t testing.TB, conn *zk.Conn, name string) []string {
	t.Helper()
	nodes, _, err := conn.Children("/padlock/" + name)
	if err != nil && err != zk.ErrNoNode {
		t.Fatal(err)
	}
	return nodes
}

// lostFirst checks that a holder notices its loss before another store gets the name.
func lostFirst(t *testing.T, g driver.Grant, other driver.Store, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for r := request(name); ; {
		_, err := other.Acquire(ctx, r)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire of %s for the next: %v", name, err)
			return
		}
	}
	if err := context.Cause(g.Bound); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the next holder has %s, and Bound of the one before says %v", name, err)
	}
}

// T-Z1: a holder that is cut off from its server loses the lock by its own clock, before the server
// gives the lock to the next holder.
func lostBeforeTheNextGrant(t *testing.T, srv *server.Server) {
	b := mustOpen(t, srv.Addr())
	for i := range 3 {
		p := server.NewProxy(t, srv.Addr())
		a := mustOpen(t, p.Addr(), zkstore.SessionTimeout(short))
		name := fmt.Sprint("lostBeforeTheNextGrant", i)
		g := take(t, a, request(name))
		<-time.After(rand.N(short / 2))
		p.Silence(true)
		if i == 1 {
			p.Cut()
		}
		lostFirst(t, g, b, name)
		p.Silence(false)
	}
}

// A holder whose server was cut off from the leader also loses the lock before the next grant.
// Holds outlive the loss of a leader.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	links := map[[2]int]*server.Proxy{}
	servers := server.ZooKeeperEnsemble(t, 3, server.ZooKeeperOptions{
		Tick: quick,
		Via: func(from, to int, addr string) string {
			mu.Lock()
			defer mu.Unlock()
			if links[[2]int{from, to}] == nil {
				links[[2]int{from, to}] = server.NewProxy(t, addr)
			}
			return links[[2]int{from, to}].Addr()
		},
	})
	t.Run("a follower is cut off", func(t *testing.T) { lostBehindAFollowerThatWasCutOff(t, servers, links) })
	t.Run("the disk of the leader is full", func(t *testing.T) {
		leader := servers[leaderOf(t, servers)]
		defer leader.Restart(true)
		defer leader.Kill()
		// The server may take part in the next election, and win it again. Then an operator is
		// needed.
		operator := time.AfterFunc(soon/4, leader.Kill)
		defer operator.Stop()
		leaderEnds(t, servers, "full", func() { fullDisk(t, leader) })
	})
	t.Run("the leader is killed", func(t *testing.T) {
		leaderEnds(t, servers, "killed", servers[leaderOf(t, servers)].Kill)
	})
}

// fullDisk lets every write of a server to a file fail.
func fullDisk(t *testing.T, srv *server.Server) {
	t.Helper()
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(srv.Pid()), "--fsize=0").CombinedOutput()
	if err != nil {
		t.Fatalf("prlimit: %v: %s", err, out)
	}
}

// manyHolds takes names, each with a session of its own. The sessions ping at different moments. On
// a machine that starves, a server may be silent for longer than a session lasts, so some sessions
// may end, or not begin.
func manyHolds(t *testing.T, addr string) map[string]driver.Grant {
	t.Helper()
	for try := range 5 {
		grants := map[string]driver.Grant{}
		for i := range 12 {
			s, err := openStore(t.Context(), addr, zkstore.SessionTimeout(short))
			if err == nil {
				t.Cleanup(func() { s.Close() })
				name := fmt.Sprint("job", try, "-", i)
				if grants[name], err = s.Acquire(t.Context(), request(name)); err != nil {
					delete(grants, name)
				}
			}
			if err != nil {
				t.Logf("hold %d: %v", i, err)
			}
			<-time.After(rand.N(short / 12))
		}
		<-time.After(short)
		maps.DeleteFunc(grants, func(name string, g driver.Grant) bool {
			if g.Bound.Err() != nil {
				t.Logf("the hold of %s ended while everything worked: %v", name, context.Cause(g.Bound))
			}
			return g.Bound.Err() != nil
		})
		if len(grants) >= 6 {
			return grants
		}
	}
	t.Fatal("in each of five rounds, most holds ended while everything worked")
	return nil
}

// A follower that was cut off from its leader still answers pings.
func lostBehindAFollowerThatWasCutOff(t *testing.T, servers []*server.Server, links map[[2]int]*server.Proxy) {
	leader := leaderOf(t, servers)
	follower := (leader + 1) % 3
	b := mustOpen(t, servers[leader].Addr())
	grants := manyHolds(t, servers[follower].Addr())
	links[[2]int{follower, leader}].Silence(true)
	defer links[[2]int{follower, leader}].Silence(false)
	var wg sync.WaitGroup
	for name, g := range grants {
		wg.Go(func() { lostFirst(t, g, b, name) })
	}
	wg.Wait()
}

// leaderOf returns which server leads. After a server was killed, the others need time to elect a
// leader.
func leaderOf(t testing.TB, servers []*server.Server) (leader int) {
	t.Helper()
	waitUntil(t, "a leader", func() bool {
		leader = slices.IndexFunc(servers, func(s *server.Server) bool {
			said, err := server.ZooKeeperSays(t.Context(), s.Addr(), "srvr")
			return err == nil && containsLine(said, "Mode: leader")
		})
		return leader >= 0
	})
	return leader
}

// When the leader ends, holds stay, waiters keep their places, and the store goes on with another
// server. A server ends itself if it cannot write its log.
func leaderEnds(t *testing.T, servers []*server.Server, name string, end func()) {
	var c zkstore.Config
	for _, s := range servers {
		c.Servers = append(c.Servers, s.Addr())
	}
	a, b := mustOpenAt(t, c, zkstore.SessionTimeout(patient)), mustOpenAt(t, c, zkstore.SessionTimeout(patient))
	r := request(name)
	g := take(t, a, r)
	type result struct {
		g   driver.Grant
		err error
	}
	waited, next := make(chan result, 1), request(name)
	go func() {
		for {
			g, err := b.Wait(t.Context(), next, true)
			if err != nil || g.TTL > 0 {
				waited <- result{g, err}
				return
			}
		}
	}()
	waitUntil(t, "a waiter", func() bool { st, err := a.Inspect(t.Context(), name); return err == nil && st.Waiters == 1 })
	before := leaderOf(t, servers)
	end()
	waitUntil(t, "another leader", func() bool {
		// A leader that has nothing to write does not notice that its disk is full.
		b.Acquire(t.Context(), request("other"))
		said, err := server.ZooKeeperSays(t.Context(), servers[before].Addr(), "srvr")
		return err != nil || !containsLine(said, "Mode: leader")
	})
	writes := 0
	waitUntil(t, "an answer after the change of the leader", func() bool {
		writes++
		_, noLeader := a.Acquire(t.Context(), request(fmt.Sprint(name, " ", writes)))
		_, err := a.Extend(t.Context(), name, r.Token, 0)
		if errors.Is(err, driver.ErrLost) {
			t.Errorf("the hold is lost: %v", context.Cause(g.Bound))
			for i, s := range servers {
				said, err := server.ZooKeeperSays(t.Context(), s.Addr(), "srvr")
				t.Logf("server %d, pid %d: %v %s", i+1, s.Pid(), err, said)
			}
			t.FailNow()
		}
		return noLeader == nil && err == nil
	})
	if g.Bound.Err() != nil {
		t.Fatalf("the hold ended: %v", context.Cause(g.Bound))
	}
	waitUntil(t, "a release", func() bool { _, err := a.Release(t.Context(), name, r.Token, 0); return err == nil })
	select {
	case w := <-waited:
		if w.err != nil || w.g.Fence <= g.Fence {
			t.Errorf("the waiter gets %+v, %v; the fence before was %d", w.g, w.err, g.Fence)
		}
	case <-time.After(soon):
		t.Fatal("the waiter was not woken")
	}
}

// The servers free the locks of a process that was killed, and those of one that was stopped. The
// process that was stopped notices its loss when it continues.
func holderKilledAndStopped(t *testing.T, srv *server.Server) {
	s := mustOpen(t, srv.Addr())
	killed, _ := startChild(t, "hold", srv.Addr(), "holderKilledAndStopped")
	refused(t, s, request("holderKilledAndStopped"))
	killed.Process.Kill()
	r, _ := eventually(t, s, "holderKilledAndStopped")
	release(t, s, r)
	stopped, lines := startChild(t, "hold", srv.Addr(), "holderKilledAndStopped")
	server.StopProcess(t, stopped.Process.Pid)
	eventually(t, s, "holderKilledAndStopped")
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expectLine(t, lines, "lost")
}

// A waiter whose process was stopped delays the next one only until the session of that process
// ends.
func waiterStopped(t *testing.T, srv *server.Server) {
	s := mustOpen(t, srv.Addr())
	r := request("waiterStopped")
	take(t, s, r)
	waiter, _ := startChild(t, "wait", srv.Addr(), "waiterStopped")
	waitUntil(t, "a waiter", func() bool { st, err := s.Inspect(t.Context(), "waiterStopped"); return err == nil && st.Waiters == 1 })
	server.StopProcess(t, waiter.Process.Pid)
	release(t, s, r)
	eventually(t, s, "waiterStopped")
}

// T-Z2: whichever reply is lost, the call returns no wrong answer, and after the release no node is
// left.
func repliesLostAtEachStep(t *testing.T, srv *server.Server) {
	conn := rawConn(t, srv.Addr())
	for what, code := range map[string]uint32{
		"create": create, "children": children, "getData": getData, "exists": exists, "setData": setData, "delete": remove, "multi": multi, "sync": syncPath,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := server.NewProxy(t, srv.Addr())
			s := mustOpen(t, p.Addr())
			for round, run := range []func(testing.TB, *zkstore.Store, string){acquireRelease, refusedTry, promoteDemote, waitAndCancel, raiseAndBreak} {
				name := fmt.Sprint(what, "-", round)
				for range 2 { // names are new in the first round, and known in the second
					p.LoseReply(carries(code))
					run(t, s, name)
				}
				waitUntil(t, "no node is left of "+name, func() bool { return len(queueOf(t, conn, name)) == 0 })
			}
		})
	}
}

// whileUncertain repeats a request as package padlock does.
func whileUncertain(t testing.TB, what string, f func() error) {
	t.Helper()
	waitUntil(t, what, func() bool {
		err := f()
		if err != nil && !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

func surely(t testing.TB, s *zkstore.Store, r driver.Request) (g driver.Grant) {
	t.Helper()
	whileUncertain(t, "Acquire", func() (err error) { g, err = s.Acquire(t.Context(), r); return err })
	return g
}

func surelyRelease(t testing.TB, s *zkstore.Store, r driver.Request) {
	t.Helper()
	whileUncertain(t, "Release", func() error {
		out, err := s.Release(t.Context(), r.Name, r.Token, 0)
		if err == nil && out != driver.Released && out != driver.Gone {
			t.Errorf("Release: %v", out)
		}
		return err
	})
}

func acquireRelease(t testing.TB, s *zkstore.Store, name string) {
	last := uint64(0)
	for _, shared := range []bool{false, true} {
		r := request(name)
		r.Shared = shared
		g := surely(t, s, r)
		if g.Fence <= last {
			t.Errorf("after fence %d comes %d", last, g.Fence)
		}
		last = g.Fence
		if again := surely(t, s, r); again.Fence != g.Fence {
			t.Errorf("a repeat has fence %d instead of %d", again.Fence, g.Fence)
		}
		surelyRelease(t, s, r)
	}
}

func refusedTry(t testing.TB, s *zkstore.Store, name string) {
	r, other := request(name), request(name)
	surely(t, s, r)
	waitUntil(t, "a refusal", func() bool {
		_, err := s.Acquire(t.Context(), other)
		if err == nil {
			t.Fatal("the name was granted twice")
		}
		return errors.Is(err, driver.ErrHeld)
	})
	surelyRelease(t, s, r)
}

func promoteDemote(t testing.TB, s *zkstore.Store, name string) {
	r := reader(name)
	before := surely(t, s, r).Fence
	var g driver.Grant
	for _, shared := range []bool{false, true, false} {
		r.Shared = shared
		whileUncertain(t, "Convert", func() (err error) { g, err = s.Convert(t.Context(), r); return err })
	}
	if g.Fence <= before {
		t.Errorf("the fence was %d, and is %d after the promotion", before, g.Fence)
	}
	surelyRelease(t, s, r)
}

func waitAndCancel(t testing.TB, s *zkstore.Store, name string) {
	r := request(name)
	surely(t, s, r)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if g, err := s.Wait(ctx, request(name), true); g.TTL > 0 {
		t.Errorf("Wait for a name that is held: %+v, %v", g, err)
	}
	surelyRelease(t, s, r)
}

func raiseAndBreak(t testing.TB, s *zkstore.Store, name string) {
	r := request(name)
	g := surely(t, s, r)
	whileUncertain(t, "RaiseFence", func() error { return s.RaiseFence(t.Context(), name, r.Token, g.Fence+1000) })
	var st driver.State
	whileUncertain(t, "Inspect", func() (err error) { st, err = s.Inspect(t.Context(), name); return err })
	if st.Fence != g.Fence+1000 {
		t.Errorf("the fence was raised to %d, and is %d", g.Fence+1000, st.Fence)
	}
	if _, err := s.Break(t.Context(), name, st.Fence); errors.Is(err, driver.ErrLost) {
		t.Errorf("Break: %v", err)
	}
	surelyRelease(t, s, r)
}

// Waits and tries that are cancelled at any moment leave no node behind.
func cancelledCalls(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	r := request("cancelledCalls")
	take(t, s, r)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
			defer cancel()
			if _, err := s.Wait(ctx, request("cancelledCalls"), true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait: %v", err)
			}
			s.Acquire(ctx, request("cancelledCalls"))
		})
	}
	wg.Wait()
	waitUntil(t, "one node is left", func() bool { return len(queueOf(t, conn, "cancelledCalls")) == 1 })
	release(t, s, r)
}

// A holder notices that its lock was broken, even if its connection is idle, and if another program
// has changed the data of its node before.
func breakIsNoticed(t *testing.T, srv *server.Server) {
	a, b := mustOpen(t, srv.Addr(), zkstore.SessionTimeout(patient)), mustOpen(t, srv.Addr())
	first, second := request("breakIsNoticed"), request("other")
	g, kept := take(t, a, first), take(t, a, second)
	conn := rawConn(t, srv.Addr())
	for range 30 { // the watch on the node is set after some time
		path := "/padlock/breakIsNoticed/" + queueOf(t, conn, "breakIsNoticed")[0]
		data, _, err := conn.Get(path)
		if err == nil {
			_, err = conn.Set(path, data, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
	if _, err := b.Break(t.Context(), "breakIsNoticed", g.Fence); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, g.Bound)
	if kept.Bound.Err() != nil {
		t.Error("another hold of the store has ended too")
	}
	release(t, a, second)
}

// If somebody deletes the node of a free lock, or all data is lost, fences do not fall.
func fencesAfterTheNodeWasDeleted(t *testing.T, srv *server.Server) {
	s, conn := mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	last := uint64(0)
	for range 3 {
		for range 50 {
			r := request("fencesAfterTheNodeWasDeleted")
			g := take(t, s, r)
			if g.Fence <= last {
				t.Fatalf("after fence %d comes %d", last, g.Fence)
			}
			last = g.Fence
			release(t, s, r)
		}
		if err := conn.Delete("/padlock/fencesAfterTheNodeWasDeleted", -1); err != nil {
			t.Fatal(err)
		}
	}
}

// A store that logs in makes nodes that nobody else can use, and still does so after its connection
// was cut.
func nodesBelongToTheirUser(t *testing.T, srv *server.Server) {
	p := server.NewProxy(t, srv.Addr())
	c := zkstore.Config{Servers: []string{p.Addr()}, User: "app", Password: "secret:word"}
	a, stranger, conn := mustOpenAt(t, c), mustOpen(t, srv.Addr()), rawConn(t, srv.Addr())
	for range 3 {
		r := request("nodesBelongToTheirUser")
		take(t, a, r)
		if _, err := stranger.Acquire(t.Context(), request("nodesBelongToTheirUser")); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire by a stranger: %v", err)
		}
		if err := conn.Delete(path.Join("/padlock/nodesBelongToTheirUser", "x"), -1); err != zk.ErrNoAuth {
			t.Errorf("Delete by a stranger: %v", err)
		}
		p.Cut()
		surelyRelease(t, a, r)
	}
	if found := finding(t, a, "skipACL"); found.Value != "no" || found.Advice != "" {
		t.Errorf("skipACL: %+v", found)
	}
}

// Close returns soon, whatever state the connection is in.
func closeWhileCutOff(t *testing.T, srv *server.Server) {
	for range 2 {
		p := server.NewProxy(t, srv.Addr())
		s := mustOpen(t, p.Addr())
		take(t, s, request("closeWhileCutOff"+p.Addr()))
		p.Silence(true)
		done := make(chan error, 1)
		go func() { done <- s.Close() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(soon):
			t.Fatal("Close does not return while the server is silent")
		}
	}
}
