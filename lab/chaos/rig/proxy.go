package rig

import (
	"slices"
	"strings"

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

// networkFaults returns the faults of the connections between workers and servers.
func networkFaults(links [][]*server.Proxy) []soak.Fault {
	return soak.NetworkFaults(slices.Concat(links...))
}
