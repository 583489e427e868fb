package rig

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// This file has the faults of a well-run server: its administrators swap roles, change passwords,
// forbid writes for a while or put a backup back. After such a fault, a client must not need a
// restart (I13).

// A pair is two servers behind one address, as behind a Service of Kubernetes or HAProxy. The
// connections of a client stay open when the address leads elsewhere.
type pair struct {
	primary, replica *server.Server
	links            [][]*server.Proxy
	// swap makes the replica the primary, and the primary its replica. No write is lost. Both
	// servers go on.
	swap func(primary, replica *server.Server)
}

// lead makes the address lead to another server.
func (p *pair) lead(to *server.Server) {
	for _, worker := range p.links {
		worker[0].Lead(to.Addr())
	}
}

// rolesSwapped is a planned failover. The address follows a moment later.
func (p *pair) rolesSwapped() soak.Fault {
	return soak.Fault{Kind: "roles swapped", On: soak.Targets(serverTarget, 1), Last: time.Second, Grace: 6 * time.Second, Weight: 6, Begin: begin(func(*rand.Rand, int) func() {
		p.swap(p.primary, p.replica)
		p.primary, p.replica = p.replica, p.primary
		return func() { p.lead(p.primary) }
	})}
}

// ledToReplica is an address that leads new connections to the replica for a while.
func (p *pair) ledToReplica() soak.Fault {
	return soak.Fault{Kind: "led to the replica", On: soak.Targets(serverTarget, 1), Last: time.Second, Grace: 6 * time.Second, Weight: 3, Begin: begin(func(*rand.Rand, int) func() {
		for _, worker := range p.links {
			worker[0].Point(p.replica.Addr())
		}
		return func() { p.lead(p.primary) }
	})}
}

// redisPair returns the setup of a row whose workers reach the primary of two Redis servers.
func redisPair(s *Site) *setup {
	servers := s.redis(2, server.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	set := s.through(servers[:1], redisURL(0, "restart-guard=known"))
	p := &pair{servers[0], servers[1], set.links, swapRedis}
	tell(p.replica, "REPLICAOF "+strings.ReplaceAll(p.primary.Addr(), ":", " "))
	set.faults = append(set.faults, p.rolesSwapped(), p.ledToReplica())
	return set
}

// swapRedis tells the primary to hand over. It refuses that until the replica is connected.
func swapRedis(primary, replica *server.Server) {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(askRedis(primary, "INFO", "replication"), "role:slave") {
			return
		}
		err = try(func() { tell(primary, "FAILOVER TO "+strings.ReplaceAll(replica.Addr(), ":", " ")+" TIMEOUT 2000") })
	}
	must(fmt.Errorf("the roles cannot be swapped: %w", err))
}
