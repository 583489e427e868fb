package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// A holder whose server was cut off from the leader also loses the lock before the next grant.
// Holds outlive the loss of a leader.
func TestEnsemble(t *testing.T) {
	server.Thorough(t)
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

// manyHolds takes names, each with a session of its own. The sessions ping at different moments.
func manyHolds(t *testing.T, addr string) map[string]*clocked {
	t.Helper()
	holds := map[string]*clocked{}
	for i := range 12 {
		name := fmt.Sprint("job", i)
		h, err := takeClocked(t, addr, name)
		if err != nil {
			t.Fatal(err)
		}
		holds[name] = h
		<-time.After(rand.N(short / 12))
	}
	<-time.After(short)
	for name, h := range holds {
		if h.g.Bound.Err() != nil {
			t.Fatalf("the hold of %s ended while everything worked: %v", name, context.Cause(h.g.Bound))
		}
	}
	return holds
}

// A follower that was cut off from its leader still answers pings.
func lostBehindAFollowerThatWasCutOff(t *testing.T, servers []*server.Server, links map[[2]int]*server.Proxy) {
	leader := leaderOf(t, servers)
	follower := (leader + 1) % 3
	b := mustOpen(t, servers[leader].Addr())
	holds := manyHolds(t, servers[follower].Addr())
	links[[2]int{follower, leader}].Silence(true)
	defer links[[2]int{follower, leader}].Silence(false)
	var wg sync.WaitGroup
	for name, h := range holds {
		wg.Go(func() { h.lostFirst(t, b, name) })
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
			if away := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain); err != nil && !away || g.TTL > 0 {
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
		_, err := a.Extend(t.Context(), name, r.Token.Text(), 0)
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
	waitUntil(t, "a release", func() bool { _, err := a.Release(t.Context(), name, r.Token.Text(), 0); return err == nil })
	select {
	case w := <-waited:
		if w.err != nil || !safety.Rises(t, w.g.Fence, g.Fence) {
			t.Errorf("the waiter gets %+v, %v; the fence before was %d", w.g, w.err, g.Fence)
		}
	case <-time.After(soon):
		t.Fatal("the waiter was not woken")
	}
}
