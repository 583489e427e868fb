package redisstore_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// callsOfAll counts the calls of a command at all nodes.
func callsOfAll(t *testing.T, nodes []*server.Server, command string) (n int64) {
	t.Helper()
	for _, node := range nodes {
		n += callsOf(t, node, command)
	}
	return n
}

// nameOn returns a name whose slot a node has.
func nameOn(t *testing.T, node *server.Server, prefix string) string {
	t.Helper()
	for i := 0; ; i++ {
		if name := prefix + strconv.Itoa(i); ownsSlot(t, node, name) {
			return name
		}
	}
}

func clusterStore(t *testing.T, address string) *redisstore.Store {
	t.Helper()
	s, err := fromURL(address)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*redisstore.Store)
}

// scriptsOfRelease is how many scripts a hand-over runs at most if its message arrives. A waiter
// that misses its message runs one more.
const scriptsOfRelease = 2

// handedOver hands a name over from one store to another, and returns how many scripts ran from the
// release until the waiter knew.
func handedOver(t *testing.T, nodes []*server.Server, from, to *redisstore.Store, name string) int64 {
	t.Helper()
	r := request(name)
	take(t, from, r)
	w := waits(t, to, name)
	before := callsOfAll(t, nodes, "evalsha")
	free(t, from, r)
	a := <-w.done
	if a.err != nil || a.g.TTL <= 0 {
		t.Fatalf("Wait: %+v, %v", a.g, a.err)
	}
	n := callsOfAll(t, nodes, "evalsha") - before
	if _, err := to.Release(t.Context(), name, w.r.Token.Text(), 0); err != nil { // on a busy machine, the reservation may be over
		t.Fatal(err)
	}
	return n
}

// TestShardedMessages: in a cluster, a message goes to one primary only. A store subscribes at each
// primary that has names with waiters.
func TestShardedMessages(t *testing.T) {
	t.Parallel()
	nodes := server.RedisCluster(t)
	address := "redis+cluster://" + nodes[0].Addr() + "?node=" + nodes[1].Addr()
	a, b := clusterStore(t, address), clusterStore(t, address)
	for i, node := range nodes {
		handedOver(t, nodes, a, b, nameOn(t, node, "job"))
		if n := callsOf(t, node, "spublish"); n == 0 {
			t.Errorf("node %d has sent no sharded message", i)
		}
		if channels := ask(t, node, "PUBSUB", "NUMPAT"); channels != "0" {
			t.Errorf("node %d has %s patterns", i, channels)
		}
	}
	if n := callsOfAll(t, nodes, "publish"); n != 0 {
		t.Errorf("%d messages went to all nodes", n)
	}
}

// TestMessagesWithoutShards: stores that may not use sharded messages, or do not know them as an
// older padlock, and stores that use them wake each other. No waiter has to look by itself.
func TestMessagesWithoutShards(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	acl, err := os.ReadFile("testdata/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(acl), "\n")
	users := map[string]string{"all": "", "silent": " -spublish", "deaf": " -ssubscribe", "neither": " -spublish -ssubscribe"}
	stores := map[string]*redisstore.Store{}
	for user, without := range users {
		rights := strings.Replace(line+" "+clusterRights, "user padlock", "user "+user, 1) + without
		for _, n := range nodes {
			ask(t, n, append([]string{"ACL", "SETUSER"}, strings.Fields(rights)[1:]...)...)
		}
		stores[user] = clusterStore(t, "redis+cluster://"+user+":PASSWORD@"+nodes[1].Addr()+"?prefix=app:")
	}
	for from := range users {
		for to := range users {
			t.Run(from+" to "+to, func(t *testing.T) {
				const rounds = 5
				looks := int64(0)
				for i := range rounds {
					looks += handedOver(t, nodes, stores[from], stores[to], from+to+strconv.Itoa(i))
				}
				if looks >= (scriptsOfRelease+1)*rounds {
					t.Errorf("%d scripts ran in %d hand-overs", looks, rounds)
				}
			})
		}
	}
}

// TestSlotMoves moves the slot of a channel to another primary, and then the slots of a name,
// while a waiter waits.
func TestSlotMoves(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	address := "redis+cluster://" + nodes[0].Addr() + "?node=" + nodes[1].Addr()
	a, b := clusterStore(t, address), clusterStore(t, address)
	name := nameOn(t, nodes[0], "job")
	r := request(name)
	take(t, a, r)
	w := waits(t, b, name)
	channels := shardChannels(t, nodes[0])
	if len(channels) != 1 {
		t.Fatalf("the first node has the channels %v", channels)
	}
	moveSlot(t, nodes, ask(t, nodes[0], "CLUSTER", "KEYSLOT", channels[0]), 0, 1)
	eventually(t, "the store takes another channel at the first node", func() bool {
		now := shardChannels(t, nodes[0])
		return len(now) == 1 && now[0] != channels[0]
	})
	free(t, a, r)
	w.got()
	free(t, b, w.r)

	before := callsOfAll(t, nodes, "publish")
	if !messageArrives(t, nodes, a, b, name) {
		t.Error("no message has arrived on the new channel")
	}
	if n := callsOfAll(t, nodes, "publish"); n != before {
		t.Errorf("%d messages went to all nodes", n-before)
	}

	// The slot of the name moves, and the waiter's channel stays where it is. Its message goes to
	// all nodes.
	slot := ask(t, nodes[0], "CLUSTER", "KEYSLOT", name)
	moveSlot(t, nodes, slot, 0, 2)
	if !messageArrives(t, nodes, a, b, name) {
		t.Error("no message about a name in a slot that has moved has arrived")
	}
}

// messageArrives hands a name over until no waiter had to look, at most five times: on a busy
// machine, a waiter may look while its message is on the way.
func messageArrives(t *testing.T, nodes []*server.Server, from, to *redisstore.Store, name string) bool {
	t.Helper()
	for range 5 {
		if handedOver(t, nodes, from, to, name) <= scriptsOfRelease {
			return true
		}
	}
	return false
}

func shardChannels(t *testing.T, node *server.Server) []string {
	t.Helper()
	c := rawClient(t, single(node.Addr()))
	names, err := c.Do(t.Context(), c.B().PubsubShardchannels().Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// moveSlot moves a slot with its keys from one node to another.
func moveSlot(t *testing.T, nodes []*server.Server, slot string, from, to int) {
	t.Helper()
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = ask(t, n, "CLUSTER", "MYID")
	}
	ask(t, nodes[to], "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	ask(t, nodes[from], "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	c := rawClient(t, single(nodes[from].Addr()))
	keys, err := c.Do(t.Context(), c.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "100").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		askBy(t, c, "MIGRATE", "127.0.0.1", portOf(nodes[to]), key, "0", "5000")
	}
	for _, i := range []int{to, from, 3 - to - from} {
		ask(t, nodes[i], "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	}
}
