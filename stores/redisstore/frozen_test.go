package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// subscriptions counts the channels of stores at a server.
func subscriptions(t *testing.T, srv *server.Server) int {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	names, err := c.Do(t.Context(), c.B().PubsubChannels().Pattern("padlock:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestSentinelFrozen freezes a primary for good, while its kernel still accepts connections and
// bytes. Commands and subscriptions move to the new primary, and names are handed over there.
func TestSentinelFrozen(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	primary, replica, watch := sentinel(t)
	var stores []*redisstore.Store
	for i := range 3 {
		s, err := fromURL("redis+sentinel://" + watch.Addr() + "/main")(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s.(*redisstore.Store))
		name := "before " + strconv.Itoa(i)
		r := request(name)
		take(t, s, r)
		w := waits(t, stores[i], name)
		free(t, s, r)
		w.got()
	}
	if n := subscriptions(t, primary); n != len(stores) {
		t.Fatalf("%d stores have %d subscriptions", len(stores), n)
	}
	primary.Pause()
	defer primary.Resume()
	noticeAfter(t, watch, 2*time.Second)
	for i, s := range stores {
		eventually(t, "the replica takes over", func() bool {
			_, err := s.Acquire(t.Context(), request("after "+strconv.Itoa(i)))
			return err == nil
		})
	}
	eventually(t, "all stores listen at the new primary", func() bool { return subscriptions(t, replica) == len(stores) })
	r := request("handed over")
	take(t, stores[0], r)
	w := waits(t, stores[1], r.Name)
	began := time.Now()
	free(t, stores[0], r)
	if st, err := stores[2].Inspect(t.Context(), r.Name); err != nil || len(st.Holds) != 1 && time.Since(began) < driver.MaxReservation {
		t.Errorf("right after the release, with a waiter in the queue: %+v, %v", st, err)
	}
	w.got()
}

// TestClusterFrozen freezes the node of a cluster at which a store has its subscription. The store
// uses names of other nodes only, so no connection is made or lost. With sharded messages, the
// store has another subscription for these names. Without them, the waiter misses the message about
// its hand-over, and looks.
func TestClusterFrozen(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for login, rights := range map[string]string{"sharded": "+@all", "plain": "+@all -ssubscribe -spublish"} {
		t.Run(login, func(t *testing.T) {
			t.Parallel()
			clusterFrozen(t, login, "on >PASSWORD ~* &* "+rights)
		})
	}
}

func clusterFrozen(t *testing.T, user, rights string) {
	nodes := server.RedisCluster(t)
	for _, n := range nodes {
		ask(t, n, "CONFIG", "SET", "cluster-require-full-coverage", "no")
		ask(t, n, append([]string{"ACL", "SETUSER", user}, strings.Fields(rights)...)...)
	}
	address := "redis+cluster://" + user + ":PASSWORD@" + nodes[0].Addr() + "?node=" + nodes[1].Addr() + "&node=" + nodes[2].Addr()
	var stores []*redisstore.Store
	for range 2 {
		s, err := fromURL(address)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s.(*redisstore.Store))
	}
	r := request("warm")
	take(t, stores[0], r)
	w := waits(t, stores[1], r.Name)
	free(t, stores[0], r)
	w.got()
	at := -1
	for i, n := range nodes {
		if subscriptions(t, n) > 0 {
			at = i
		}
	}
	var name string
	for i := 0; name == ""; i++ {
		c := "job" + strconv.Itoa(i)
		if !ownsSlot(t, nodes[at], c) {
			name = c
		}
	}
	nodes[at].Pause()
	defer nodes[at].Resume()
	r = request(name)
	take(t, stores[0], r)
	w = waits(t, stores[1], name)
	if _, err := stores[0].Release(t.Context(), name, r.Token.Text(), 0); err != nil {
		t.Fatal(err)
	}
	w.got()
}

// ownsSlot reports whether a node has the slot of a key.
func ownsSlot(t *testing.T, n *server.Server, key string) bool {
	t.Helper()
	c := rawClient(t, single(n.Addr()))
	err := c.Do(t.Context(), c.B().Arbitrary("EXISTS").Keys(key).Build()).Error()
	if err != nil && !strings.Contains(err.Error(), "MOVED") {
		t.Fatal(err)
	}
	return err == nil
}

// TestFrozenNodeStallsNobody: names of the other nodes are granted while callers keep asking for
// names of a frozen node.
func TestFrozenNodeStallsNobody(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	for _, n := range nodes {
		ask(t, n, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	opened, err := fromURL("redis+cluster://" + nodes[0].Addr() + "?node=" + nodes[1].Addr())(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	s := opened.(*redisstore.Store)
	name := func(frozen bool) string {
		for i := 0; ; i++ {
			if c := "job" + strconv.Itoa(i); ownsSlot(t, nodes[2], c) == frozen {
				return c
			}
		}
	}
	healthy, frozen := name(false), name(true)
	nodes[2].Pause()
	defer nodes[2].Resume()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Acquire(ctx, request(frozen)); err == nil {
				safety.TooEarly(t, "a frozen node gave a lock")
			}
		}
	})
	// The first answers come only after the frozen node was found silent.
	failed, longest, began := 0, time.Duration(0), time.Now()
	for n := 0; n < 300; {
		asked := time.Now()
		r := request(healthy)
		_, err := s.Acquire(ctx, r)
		longest = max(longest, time.Since(asked))
		if err != nil {
			if failed++; failed > 20 {
				t.Fatalf("after %d locks of a healthy node: %v", n, err)
			}
			continue
		}
		free(t, s, r)
		pause(ctx, 20*time.Millisecond)
		if n++; time.Since(began) > time.Minute {
			t.Fatalf("in a minute %d locks of a healthy node were granted", n)
		}
	}
	t.Logf("300 locks, %d failures, the longest request took %v", failed, longest)
}
