package rig

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// memcached returns the row of memcached. The faults do not include one that stops the server's
// process for a while. Such a stop may end leases early, and the store's Guarantees say so.
func memcached(s *Site) *setup {
	servers := []*server.Server{server.Memcached(&s.host)}
	set := s.through(servers, joined("memcached://", ""))
	set.faults = append(set.faults, faultsOf(servers, 4*time.Second,
		hit{kind: "flush_all", begin: flushMemcached}, restarted("restart without data", false))...)
	return set
}

// flushMemcached removes all values, as an administrator of a cache may do.
func flushMemcached(srv *server.Server) {
	conn := got(net.DialTimeout("tcp", srv.Addr(), 15*time.Second))
	defer conn.Close()
	must(conn.SetDeadline(time.Now().Add(15 * time.Second)))
	got(fmt.Fprint(conn, "flush_all\r\n"))
	if line := got(bufio.NewReader(conn).ReadString('\n')); strings.TrimSpace(line) != "OK" {
		must(fmt.Errorf("flush_all: %q", line))
	}
}
