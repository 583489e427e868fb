package rig

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/soak"
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
	faults := append(networkFaults(links), stop, restart("restart with data", servers, true, grace))
	return &setup{stages: [][]string{stage}, open: Open, faults: faults}, nil
}
