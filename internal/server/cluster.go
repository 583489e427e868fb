package server

import (
	"context"
	"slices"
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
		awaitTexts(ctx, t, n.Place(), []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_size:" + strconv.Itoa(len(clusterSlots))}, "CLUSTER", "INFO")
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
	awaitTexts(ctx, t, p, []string{id}, "CLUSTER", "NODES")
	if reply, err := AskRedis(ctx, p.Addr(), "CLUSTER", "REPLICATE", id); err != nil {
		t.Fatalf("CLUSTER REPLICATE: %q, %v", reply, err)
	}
	awaitTexts(ctx, t, p, []string{"master_link_status:up"}, "INFO", "replication")
	own, err := AskRedis(ctx, p.Addr(), "CLUSTER", "MYID")
	if err != nil {
		t.Fatalf("CLUSTER MYID: %v", err)
	}
	for _, n := range nodes {
		awaitTexts(ctx, t, n.Place(), []string{own + " 127.0.0.1:" + strconv.Itoa(p.Port)}, "CLUSTER", "NODES")
	}
	return replica
}

// awaitTexts asks a server until its reply contains all of the texts.
func awaitTexts(ctx context.Context, t testing.TB, p Place, texts []string, command ...string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		reply, err := AskRedis(ctx, p.Addr(), command...)
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(reply, text) }) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%v has not all of %q: %q, %v", command, texts, reply, err)
		}
	}
}

// clusterNode describes one primary of a cluster.
func clusterNode(i int) Spec {
	spec := redisSpec(RedisOptions{Cluster: true})
	spec.Ready = answersPing // it has no state before it has met the others
	spec.Prepare = func(_ context.Context, p Place) error {
		return p.Write("nodes.conf", []byte(ownSlots(p, i+1, clusterSlots[i])))
	}
	return spec
}

func answersPing(ctx context.Context, p Place) error {
	_, err := AskRedis(ctx, p.Addr(), "PING")
	return err
}
