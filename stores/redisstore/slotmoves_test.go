package redisstore_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// TestHalfOfASlotHasMoved: a cluster moves a slot key by key, and requests with several keys find
// some of them at each node. Calls for the names of the slot are refused until it has moved.
func TestHalfOfASlotHasMoved(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	nodes := server.RedisCluster(t)
	for _, query := range []string{"", "&fences=no"} {
		address := "redis+cluster://" + nodes[0].Addr() + "?node=" + nodes[1].Addr() + query
		a, b := clusterStore(t, address), clusterStore(t, address)
		name := nameOn(t, nodes[0], "job"+query)
		r := request(name)
		take(t, a, r)
		slot := ask(t, nodes[0], "CLUSTER", "KEYSLOT", name)
		ids := []string{ask(t, nodes[0], "CLUSTER", "MYID"), ask(t, nodes[1], "CLUSTER", "MYID")}
		ask(t, nodes[1], "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
		ask(t, nodes[0], "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
		c := rawClient(t, single(nodes[0].Addr()))
		keys := func() []string {
			k, err := c.Do(t.Context(), c.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "100").Build()).AsStrSlice()
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		migrate := func(key string) { askBy(t, c, "MIGRATE", "127.0.0.1", portOf(nodes[1]), key, "0", "5000") }
		migrate(name)
		_, err := a.Extend(t.Context(), name, r.Token.Text(), r.TTL)
		wantIs(t, err, driver.ErrUnavailable, "Extend"+query)
		_, err = b.Acquire(t.Context(), request(name))
		wantIs(t, err, driver.ErrUnavailable, "Acquire"+query)
		for _, key := range keys() {
			migrate(key)
		}
		for _, i := range []int{1, 0, 2} {
			ask(t, nodes[i], "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
		}
		if _, err := a.Extend(t.Context(), name, r.Token.Text(), r.TTL); err != nil {
			t.Errorf("Extend when the slot has moved: %v", err)
		}
		free(t, a, r)
		next := request(name)
		take(t, b, next)
		free(t, b, next)
	}
}
