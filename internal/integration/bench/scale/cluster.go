//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/integration/bench/host"
	"github.com/padlock-go/padlock/internal/server"
)

// slots are the slots of the three primaries of a cluster.
var slots = []string{"0-5460", "5461-10922", "10923-16383"}

// startCluster starts a Redis Cluster of three primaries, and waits until they know each other.
func startCluster(h *host.Host, _ int) (*rig, error) {
	r := &rig{}
	err := h.Try(func(t testing.TB) {
		for i := range slots {
			r.servers = append(r.servers, server.Start(t, primary(i)))
		}
	})
	if err != nil {
		return nil, err
	}
	r.inform()
	r.url = "redis+cluster://" + r.servers[0].Addr() + "?node=" + r.servers[1].Addr()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first := r.servers[0].Place()
	for _, s := range r.servers[1:] {
		if _, err := sendCommand(ctx, s, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.Port), strconv.Itoa(first.Extra[0])); err != nil {
			return nil, err
		}
	}
	for _, s := range r.servers {
		if err := complete(ctx, s); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// startBusyNode starts a cluster of three primaries whose names are all at the first one. So this
// one has as many names, and gets as many requests at a time, as a Redis without a cluster. The
// work of the other two for its hand-overs is counted too. If all three have such a load, each does
// its own work and that for the other two, which is as much as all three do here.
func startBusyNode(h *host.Host, n int) (*rig, error) {
	r, err := startCluster(h, n)
	if err == nil {
		r.busy = 1
	}
	return r, err
}

// complete waits until a primary knows the owners of all slots.
func complete(ctx context.Context, s *server.Server) error {
	for {
		text, err := sendCommand(ctx, s, "CLUSTER", "INFO")
		if err != nil || strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_slots_ok:16384") {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pickNames returns n names to hand over. In a cluster, each of the busy primaries has as many of
// them as the others, as it would with a great number of names.
func (r *rig) pickNames(n int) (all []string, err error) {
	const hashSlots = 16384
	busy := r.busy
	if busy == 0 {
		busy = len(r.servers)
	}
	owned := make([]int, busy)
	for i := 0; len(all) < n; i++ {
		name, owner := fmt.Sprint("bench:scale:shared:", i), 0
		if len(r.servers) > 1 {
			slot, err := sendCommand(context.Background(), r.servers[0], "CLUSTER", "KEYSLOT", name)
			if err != nil {
				return nil, err
			}
			number, err := strconv.Atoi(slot)
			if err != nil {
				return nil, err
			}
			owner = number * len(r.servers) / hashSlots
		}
		if owner < busy && owned[owner]*busy < n {
			owned[owner]++
			all = append(all, name)
		}
	}
	return all, nil
}

// primary is one primary of a cluster. Its table of nodes is written before it starts.
func primary(i int) server.Spec {
	return server.Spec{
		Name: "redis-cluster-node", Package: "redis-server", Binary: []string{"redis-server", "valkey-server"}, ExtraPorts: 1,
		Args: func(p server.Place) []string {
			return []string{
				"--bind", "127.0.0.1", "--dir", p.Dir, "--save", "", "--port", strconv.Itoa(p.Port),
				"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(p.Extra[0]),
			}
		},
		Prepare: func(_ context.Context, p server.Place) error {
			return p.Write("nodes.conf", fmt.Appendf(nil, "%040x 127.0.0.1:%d@%d myself,master - 0 0 %d connected %s\n"+
				"vars currentEpoch %d lastVoteEpoch 0\n", p.Port, p.Port, p.Extra[0], i+1, slots[i], i+1))
		},
		Ready: func(ctx context.Context, p server.Place) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr())
			if err == nil {
				err = conn.Close()
			}
			return err
		},
	}
}
