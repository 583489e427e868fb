package rig

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// proxies puts a proxy between each of n clients and each server. They end with the site.
func (s *Site) proxies(n int, addrs ...string) [][]*server.Proxy {
	all := make([][]*server.Proxy, n)
	for client := range all {
		for _, addr := range addrs {
			all[client] = append(all[client], server.NewProxy(&s.host, addr))
		}
	}
	return all
}

func addrs(servers []*server.Server) (list []string) {
	for _, srv := range servers {
		list = append(list, srv.Addr())
	}
	return list
}

// through returns the setup of a row whose workers reach each server through proxies of their own.
// Its faults are those of the connections. The function url makes the configuration of a worker from
// the addresses of its proxies.
func (s *Site) through(servers []*server.Server, url func(at []string) string) *setup {
	links := s.proxies(s.Workers, addrs(servers)...)
	return &setup{stages: [][]string{stageOf(links, url)}, open: Open, faults: networkFaults(links), links: links, log: servers[0].Log}
}

// stageOf returns the configuration of each worker.
func stageOf(links [][]*server.Proxy, url func(at []string) string) (stage []string) {
	for _, worker := range links {
		var at []string
		for _, p := range worker {
			at = append(at, p.Addr())
		}
		stage = append(stage, url(at))
	}
	return stage
}

// joined returns a URL with the addresses of all servers.
func joined(before, after string) func(at []string) string {
	return func(at []string) string { return before + strings.Join(at, ",") + after }
}

// linkTarget is the prefix of the names of connections as targets of faults.
const linkTarget = "link"

// networkFaults returns the faults of the connections between workers and servers. Each fault hits
// the connections of one worker to one server.
func networkFaults(links [][]*server.Proxy) []soak.Fault {
	all := slices.Concat(links...)
	on := soak.Targets(linkTarget, len(all))
	hit := func(kind string, last time.Duration, trouble func(*rand.Rand) (requests, replies server.Trouble)) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: 3, Begin: func(d *rand.Rand, i int) (func() error, error) {
			all[i].Disturb(trouble(d))
			return func() error {
				all[i].Disturb(server.Trouble{}, server.Trouble{})
				return nil
			}, nil
		}}
	}
	always := func(requests, replies server.Trouble) func(*rand.Rand) (server.Trouble, server.Trouble) {
		return func(*rand.Rand) (server.Trouble, server.Trouble) { return requests, replies }
	}
	lose, pass := server.Trouble{Lose: true}, server.Trouble{}
	return []soak.Fault{
		hit("latency", time.Second, func(d *rand.Rand) (server.Trouble, server.Trouble) {
			slow := server.Trouble{Delay: ms(5 + d.IntN(200)), Jitter: ms(d.IntN(50))}
			return slow, slow
		}),
		hit("cut", 1500*time.Millisecond, always(lose, lose)),
		hit("lost replies", time.Second, always(pass, lose)),
		hit("lost requests", time.Second, always(lose, pass)),
		hit("reset", 300*time.Millisecond, always(pass, server.Trouble{Reset: true})),
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
