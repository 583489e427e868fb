package rig

import (
	"context"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/stores/natsstore"
)

// natsServer starts a NATS server with a bucket, in which the workers of a row take their locks.
// Each worker reaches it through its own proxy.
func natsServer(s *Site) (*setup, error) {
	var srv *server.Server
	if err := try(func() { srv = server.NATS(&s.host, server.NATSOptions{}) }); err != nil {
		return nil, err
	}
	servers := []*server.Server{srv}
	links, err := s.links(servers)
	if err != nil {
		return nil, err
	}
	const bucket = "/locks/soak"
	u, err := url.Parse(srv.URL() + bucket)
	if err != nil {
		return nil, err
	}
	if _, _, err := natsstore.Scheme().Upgrade(context.Background(), u); err != nil {
		return nil, err
	}
	var stage []string
	for _, worker := range links {
		stage = append(stage, "nats://"+worker[0].Addr()+bucket)
	}
	const grace = 4 * time.Second
	stop := soak.Fault{Kind: "stop server", On: soak.Targets(serverTarget, 1), Last: 1500 * time.Millisecond, Grace: grace, Weight: 2, Begin: func(*rand.Rand, int) (func() error, error) {
		return func() error { return try(srv.Resume) }, try(srv.Pause)
	}}
	faults := append(networkFaults(links), stop, restart("restart with data", servers, true, grace))
	return &setup{stages: [][]string{stage}, open: Open, faults: faults, log: srv.Log}, nil
}
