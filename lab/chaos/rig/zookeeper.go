package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// zooKeepers is an ensemble of three. Each worker reaches each server through its own proxy.
func zooKeepers(s *Site) (*setup, error) {
	var servers []*server.Server
	err := try(func() { servers = server.ZooKeeperEnsemble(&s.host, 3, server.ZooKeeperOptions{}) })
	if err != nil {
		return nil, err
	}
	links, err := s.links(servers)
	if err != nil {
		return nil, err
	}
	var stage []string
	for _, worker := range links {
		var hosts []string
		for _, p := range worker {
			hosts = append(hosts, p.Addr())
		}
		stage = append(stage, fmt.Sprintf("zookeeper://%s/soak?session-timeout=3s", strings.Join(hosts, ",")))
	}
	const grace = 6 * time.Second
	stop := soak.Fault{Kind: "stop server", On: soak.Targets(serverTarget, 3), Last: 2 * time.Second, Grace: grace, Begin: func(_ *rand.Rand, i int) (func() error, error) {
		return func() error { return try(servers[i].Resume) }, try(servers[i].Pause)
	}}
	faults := append(networkFaults(links), stop, restartInSync(servers, grace))
	return &setup{stages: [][]string{stage}, open: Open, faults: faults}, nil
}

// restartInSync is the fault "restart with data" for an ensemble. It ends only when all servers
// have the same data again, and one server restarts at a time. ZooKeeper 3.8.0 may lose writes that
// it has confirmed if a server dies soon after it has joined the others again, and before it has
// written to its disk what it got from them (ZOOKEEPER-3911, 4643, 4646, 4785).
func restartInSync(servers []*server.Server, grace time.Duration) soak.Fault {
	f := restart("restart with data", servers, true, grace)
	begin := f.Begin
	var one sync.Mutex
	f.Begin = func(dice *rand.Rand, i int) (func() error, error) {
		one.Lock()
		end, err := begin(dice, i)
		if err != nil {
			one.Unlock()
			return nil, err
		}
		return func() error {
			defer one.Unlock()
			return errors.Join(end(), awaitSync(servers))
		}, nil
	}
	return f
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
