package rig

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// etcdMembers starts a cluster of three members of etcd, in which the workers of a row take their
// locks. Each worker reaches each member through its own proxy.
func etcdMembers(s *Site) (*setup, error) {
	var servers []*server.Server
	if err := try(func() { servers = server.EtcdCluster(&s.host, 3) }); err != nil {
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
		stage = append(stage, "etcd://"+strings.Join(hosts, ",")+"/soak/")
	}
	return &setup{stages: [][]string{stage}, open: Open, faults: append(networkFaults(links), etcdFaults(servers)...), log: servers[0].Log}, nil
}

// etcdFaults returns faults that hit one member at a time, so that the other members are a
// majority. The member may be the leader. The grace of the faults is long because an election takes
// half a second to a second, and because a restarted member has to catch up.
func etcdFaults(servers []*server.Server) []soak.Fault {
	const grace = 8 * time.Second
	on := []string{"a member of etcd"}
	some := func(d *rand.Rand) *server.Server { return servers[d.IntN(len(servers))] }
	return []soak.Fault{
		{Kind: "member killed", On: on, Last: time.Second, Grace: grace, Begin: func(d *rand.Rand, _ int) (func() error, error) {
			m := some(d)
			return func() error { return try(func() { m.Restart(true) }) }, try(m.Kill)
		}},
		{Kind: "member stopped", On: on, Last: 3 * time.Second, Grace: grace, Begin: func(d *rand.Rand, _ int) (func() error, error) {
			m := some(d)
			return func() error { return try(m.Resume) }, try(m.Pause)
		}},
	}
}
