package rig

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// zooKeepers is an ensemble of three. Each worker reaches each server through its own proxy.
func zooKeepers(s *Site) *setup {
	servers := server.ZooKeeperEnsemble(&s.host, 3, server.ZooKeeperOptions{})
	set := s.through(servers, joined("zookeeper://", "/soak?session-timeout=3s"))
	set.faults = append(set.faults, faultsOf(servers, 6*time.Second, stopped(1, 2*time.Second), restartInSync(servers))...)
	return set
}

// restartInSync is the fault "restart with data" for an ensemble. It ends only when all servers
// have the same data again, and one server restarts at a time. ZooKeeper 3.8.0 may lose writes that
// it has confirmed if a server dies soon after it has joined the others again, and before it has
// written to its disk what it got from them (ZOOKEEPER-3911, 4643, 4646, 4785).
func restartInSync(servers []*server.Server) hit {
	var one sync.Mutex
	h := restarted("restart with data", true)
	kill, start := h.begin, h.end
	h.begin = func(s *server.Server) {
		one.Lock()
		if err := try(func() { kill(s) }); err != nil {
			one.Unlock()
			must(err)
		}
	}
	h.end = func(s *server.Server) {
		defer one.Unlock()
		start(s)
		must(awaitSync(servers))
	}
	return h
}

// toDisk is more time than a server needs for writing to its disk what it got when it joined.
const toDisk = time.Second

// awaitSync waits until each server follows a leader or is the leader. It gives up after a time
// that is longer than any other fault stops a server.
func awaitSync(servers []*server.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, s := range servers {
		for {
			said, err := server.ZooKeeperSays(ctx, s.Addr(), "srvr")
			if err == nil && strings.Contains(said, "Mode: ") {
				break
			}
			if wait(ctx, 100*time.Millisecond); ctx.Err() != nil {
				return fmt.Errorf("the ensemble is not complete again: %w", ctx.Err())
			}
		}
	}
	<-time.After(toDisk)
	return nil
}
