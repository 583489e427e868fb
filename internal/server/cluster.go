package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clusterSlots lists the range of slots of each primary of RedisCluster.
var clusterSlots = []string{"0-5460", "5461-10922", "10923-16383"}

// RedisCluster starts a Redis Cluster of three primaries that share the slots. It returns when each
// of them knows the owners of all slots.
func RedisCluster(t testing.TB) (nodes []*Server) {
	t.Helper()
	for i := range clusterSlots {
		nodes = append(nodes, Start(t, clusterNode(i)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first := nodes[0].Place()
	for _, n := range nodes[1:] {
		p := n.Place()
		if reply, err := AskRedis(ctx, first.Addr(), "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(p.Port), strconv.Itoa(p.Extra[0])); err != nil {
			t.Fatalf("CLUSTER MEET: %q, %v", reply, err)
		}
	}
	for _, n := range nodes {
		if err := awaitCluster(ctx, n.Place()); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// RedisClusterReplica adds a replica of one of the primaries of RedisCluster. It returns when the
// replica has the primary's data and all primaries know it.
func RedisClusterReplica(t testing.TB, nodes []*Server, of int) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	primary := nodes[of].Place()
	id, err := AskRedis(ctx, primary.Addr(), "CLUSTER", "MYID")
	if err != nil {
		t.Fatalf("CLUSTER MYID: %v", err)
	}
	spec := clusterNode(of)
	spec.Prepare = nil // the replica begins without a list of nodes
	replica := Start(t, spec)
	p := replica.Place()
	if reply, err := AskRedis(ctx, p.Addr(), "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(primary.Port), strconv.Itoa(primary.Extra[0])); err != nil {
		t.Fatalf("CLUSTER MEET: %q, %v", reply, err)
	}
	awaitText(ctx, t, p, id, "CLUSTER", "NODES")
	if reply, err := AskRedis(ctx, p.Addr(), "CLUSTER", "REPLICATE", id); err != nil {
		t.Fatalf("CLUSTER REPLICATE: %q, %v", reply, err)
	}
	awaitText(ctx, t, p, "master_link_status:up", "INFO", "replication")
	own, err := AskRedis(ctx, p.Addr(), "CLUSTER", "MYID")
	if err != nil {
		t.Fatalf("CLUSTER MYID: %v", err)
	}
	for _, n := range nodes {
		awaitText(ctx, t, n.Place(), own+" 127.0.0.1:"+strconv.Itoa(p.Port), "CLUSTER", "NODES")
	}
	return replica
}

// awaitText asks a server until its reply contains a text.
func awaitText(ctx context.Context, t testing.TB, p Place, text string, command ...string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		reply, err := AskRedis(ctx, p.Addr(), command...)
		if strings.Contains(reply, text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%v has no %q: %q, %v", command, text, reply, err)
		}
	}
}

// awaitCluster waits until a primary knows the owners of all slots.
func awaitCluster(ctx context.Context, p Place) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := AskRedis(ctx, p.Addr(), "CLUSTER", "INFO")
		if err == nil && strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_slots_ok:16384") &&
			strings.Contains(text, "cluster_size:"+strconv.Itoa(len(clusterSlots))) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster is not complete: %w, it says %q, %v", ctx.Err(), text, err)
		}
	}
}

// clusterNode describes one primary of a cluster. The file that assigns the slots to the nodes is
// written before the primary starts, so no commands are needed for that.
func clusterNode(i int) Spec {
	return Spec{
		Name: "redis-cluster-node", Package: "redis-server", Binary: []string{"redis-server", "valkey-server"}, ExtraPorts: 1,
		Args: func(p Place) []string {
			return []string{
				"--bind", "127.0.0.1", "--dir", p.Dir, "--save", "", "--port", strconv.Itoa(p.Port),
				"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(p.Extra[0]),
			}
		},
		Prepare: func(_ context.Context, p Place) error {
			return p.Write("nodes.conf", fmt.Appendf(nil, "%040x 127.0.0.1:%d@%d myself,master - 0 0 %d connected %s\n"+
				"vars currentEpoch %d lastVoteEpoch 0\n", p.Port, p.Port, p.Extra[0], i+1, clusterSlots[i], i+1))
		},
		Ready: func(ctx context.Context, p Place) error {
			_, err := AskRedis(ctx, p.Addr(), "PING")
			return err
		},
	}
}
