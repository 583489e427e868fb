package rig

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// memcached returns the row of memcached. The faults do not include one that stops the server's
// process for a while. Such a stop may end leases early, and the store's Guarantees say so.
func memcached(s *Site) (*setup, error) {
	var srv *server.Server
	if err := try(func() { srv = server.Memcached(&s.host) }); err != nil {
		return nil, err
	}
	servers := []*server.Server{srv}
	links, err := s.links(servers)
	if err != nil {
		return nil, err
	}
	var stage []string
	for _, worker := range links {
		stage = append(stage, "memcached://"+worker[0].Addr())
	}
	faults := append(networkFaults(links), flushMemcached(srv), restart("restart without data", servers, false, 4*time.Second))
	return &setup{stages: [][]string{stage}, open: Open, faults: faults, log: srv.Log}, nil
}

// flushMemcached removes all values, as an administrator of a cache may do.
func flushMemcached(srv *server.Server) soak.Fault {
	return soak.Fault{Kind: "flush_all", On: soak.Targets(serverTarget, 1), Grace: 4 * time.Second, Begin: func(*rand.Rand, int) (func() error, error) {
		conn, err := net.DialTimeout("tcp", srv.Addr(), 15*time.Second)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
			return nil, err
		}
		if _, err := fmt.Fprint(conn, "flush_all\r\n"); err != nil {
			return nil, err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && strings.TrimSpace(line) != "OK" {
			err = fmt.Errorf("flush_all: %q", line)
		}
		return nil, err
	}}
}
