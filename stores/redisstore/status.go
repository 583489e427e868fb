package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Status implements driver.Reporter. It asks every server.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	c, err := s.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	nodes := s.askAll(ctx, nil, (*node).askNode)
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].addr < nodes[j].addr })
	found := []driver.Finding{{Name: "mode", Value: string(c.Mode())}}
	reached := false
	for i := range nodes {
		n := &nodes[i]
		prefix := ""
		if len(nodes) > 1 {
			prefix = n.addr + " "
		}
		if n.err != nil {
			if len(nodes) == 1 {
				return nil, s.failure(ctx, n.err)
			}
			found = append(found, driver.Finding{Name: prefix + "server", Value: driver.Unknown, Advice: "it cannot be reached"})
			continue
		}
		reached = true
		for _, f := range s.findings(n) {
			f.Name = prefix + f.Name
			found = append(found, f)
		}
	}
	if !reached {
		return nil, unavailable("no server can be reached")
	}
	return append(found, s.guardFinding()), nil
}

func (s *Store) findings(n *node) []driver.Finding {
	said := func(name, field string) driver.Finding {
		return driver.Finding{Name: name, Value: cmp.Or(n.info[field], driver.Unknown)}
	}
	policy := said("maxmemory-policy", "maxmemory_policy")
	if n.evicts() && policy.Value != driver.Unknown {
		policy.Advice = "set maxmemory-policy noeviction: this one drops locks that are held"
	}
	uptime := said("uptime", "uptime_in_seconds")
	if v := n.number("uptime_in_seconds"); v >= 0 {
		uptime.Value = (time.Duration(v) * time.Second).String()
	}
	role := said("role", "role")
	if n.replica() {
		role.Advice = "connect to the primary"
	}
	found := []driver.Finding{
		said("server", "redis_version"), said("run-id", "run_id"), uptime, role, said("connected-replicas", "connected_slaves"),
		said("maxmemory", "maxmemory"), policy, s.persistence(n), s.remembered(n),
	}
	if s.server.Single() && n.info["cluster_enabled"] == "1" {
		found = append(found, nodeAlone)
	}
	return found
}

// nodeAlone is the finding that the client of a single server is connected to a node of a cluster.
// That is no reason to refuse locks: a proxy that forwards each request to the right node looks the
// same, and a cluster of one node has all names.
var nodeAlone = driver.Finding{
	Name: "cluster", Value: "a node of a Redis Cluster, used like a single server",
	Advice: "write redis+cluster:// or set Config.Cluster, unless a proxy that knows the cluster is between",
}

// persistence reports which locks survive a restart of the server.
func (s *Store) persistence(n *node) driver.Finding {
	f := driver.Finding{Name: "persistence", Value: driver.Unknown}
	switch {
	case n.durable():
		f.Value = "appendfsync always"
		return f
	case n.conf["appendonly"] == "yes":
		f.Value = "appendfsync " + n.conf["appendfsync"]
		f.Advice = "a crash loses the last second or two; set appendfsync always to keep locks over restarts"
	case n.info["aof_enabled"] == "1":
		f.Value = "append-only file, appendfsync unknown"
		f.Advice = "allow the user CONFIG GET, so that appendfsync can be read"
	case n.info["aof_enabled"] == "0":
		f.Value = "no append-only file"
		f.Advice = "a restart loses locks; set appendonly yes and appendfsync always to keep them"
	}
	return f
}

func (s *Store) remembered(n *node) driver.Finding {
	f := driver.Finding{Name: "known-before", Value: "no"}
	line, err := s.config.runIDs.Load(n.addr)
	switch {
	case err != nil:
		f.Value, f.Advice = driver.Unknown, fmt.Sprintf("run ids cannot be read: %v", err)
	case line != "":
		f.Value = "yes"
	}
	return f
}

func (s *Store) guardFinding() driver.Finding {
	g := &s.checks
	g.mu.Lock()
	defer g.mu.Unlock()
	f := driver.Finding{Name: "restart-guard", Value: [...]string{"on servers that were known before", "strict", "off"}[s.config.guard]}
	if left := g.guardUntil.Sub(s.clock.Now()); g.guardUntil != 0 && left > 0 {
		f.Value += fmt.Sprintf(", gives no locks for %v", left.Round(time.Second))
	}
	return f
}
