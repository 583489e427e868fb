//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// startCluster starts a Redis Cluster of three primaries.
func startCluster(h *server.Host, _ int) (*rig, error) {
	r := &rig{}
	if err := h.Try(func(t testing.TB) { r.servers = server.RedisCluster(t) }); err != nil {
		return nil, err
	}
	r.setFunctions()
	r.url = "redis+cluster://" + r.servers[0].Addr() + "?node=" + r.servers[1].Addr()
	return r, nil
}

// startBusyNode starts a cluster of three primaries and puts all names on the first primary. So the
// first primary has as many names and requests as a Redis without a cluster.
//
// The row estimates how fast a cluster is if all three primaries are that busy. A hand-over costs
// processor time on all three primaries. So the estimate uses the sum of these times.
func startBusyNode(h *server.Host, n int) (*rig, error) {
	r, err := startCluster(h, n)
	if err == nil {
		r.busy = 1
	}
	return r, err
}

// pickNames returns n names to hand over. In a cluster, each busy primary has the same number of
// names.
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
