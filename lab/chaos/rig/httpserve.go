package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// servedTTL is the max-ttl of the servers of padlock. After a restart of Redis, their restart guard
// waits for the same time.
const servedTTL = 12 * time.Second

// serveRedis returns two servers of padlock for a Redis.
func serveRedis(o server.RedisOptions, query string) func(*Site) (*serving, error) {
	return func(s *Site) (*serving, error) {
		servers, err := s.redis(1, o)
		if err != nil {
			return nil, err
		}
		ways, err := s.waysBehind(servers[0])
		if err != nil {
			return nil, err
		}
		faults := s.serverFaults(servers, ways, o)
		for i := range faults {
			if strings.HasPrefix(faults[i].Kind, "restart") {
				faults[i].Grace += servedTTL - guardTTL
			}
		}
		return s.serveTwo(ways, func(at string) string { return fmt.Sprintf("redis://%s?max-ttl=%v&%s", at, servedTTL, query) }, faults)
	}
}

// servePostgres returns two servers of padlock for PostgreSQL.
func servePostgres(s *Site) (*serving, error) {
	var srv *server.Server
	if err := try(func() { srv = postgresServer(s, "") }); err != nil {
		return nil, err
	}
	if err := postgreSQL.prepare(postgresURL(srv.Addr())); err != nil {
		return nil, err
	}
	ways, err := s.waysBehind(srv)
	if err != nil {
		return nil, err
	}
	alive := func() error { return postgreSQL.revive(postgresURL(srv.Addr()), srv) }
	return s.serveTwo(ways, postgresURL, append(networkFaults(ways), supervised(alive, postgreSQL.serverFaults(srv, ""))...))
}

// waysBehind returns a way to the store for each of two servers of padlock.
func (s *Site) waysBehind(store *server.Server) ([][]*server.Proxy, error) {
	var ways [][]*server.Proxy
	for range 2 {
		p, err := s.proxy(store.Addr())
		if err != nil {
			return nil, err
		}
		ways = append(ways, []*server.Proxy{p})
	}
	return ways, nil
}

// serveTwo starts two servers of padlock.
func (s *Site) serveTwo(ways [][]*server.Proxy, storeURL func(at string) string, faults []soak.Fault) (*serving, error) {
	binary, err := server.BuildPadlock(s.dir)
	if err != nil {
		return nil, err
	}
	out := &serving{}
	var servers []*server.Server
	for i, way := range ways {
		var srv *server.Server
		if err := try(func() { srv = server.Padlock(&s.host, binary, storeURL(way[0].Addr())) }); err != nil {
			return nil, err
		}
		servers, out.addrs[i] = append(servers, srv), srv.Addr()
	}
	out.log = func() string { return servers[0].Log() + servers[1].Log() }
	out.faults = append(renamed(faults, "server's way"), serveFaults(servers)...)
	return out, nil
}

// serveFaults returns the faults of the servers of padlock. They hit one server after the other,
// and never both at once.
func serveFaults(servers []*server.Server) []soak.Fault {
	on, turn := soak.Targets("serve", 1), 0
	fault := func(kind string, weight int, last time.Duration, begin, undo func(*server.Server) error) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: weight, Begin: func(*rand.Rand, int) (func() error, error) {
			s := servers[turn%len(servers)]
			turn++
			return func() error { return undo(s) }, begin(s)
		}}
	}
	kill := func(s *server.Server) error { return try(s.Kill) }
	end := func(s *server.Server) error { return try(s.Stop) }
	return []soak.Fault{
		fault("serve killed", 8, 2*time.Second, kill, again),
		fault("serve ended", 3, 2*time.Second, end, again),
		fault("serve stopped", 3, 2*time.Second, func(s *server.Server) error { return try(s.Pause) }, func(s *server.Server) error { return try(s.Resume) }),
	}
}

// again starts a server of padlock that has ended. It does not start while it cannot reach the
// store, so again tries for a while, as a supervisor does.
func again(s *server.Server) (err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = try(func() { s.Restart(true) }); err == nil {
			return nil
		}
	}
	return errors.Join(errors.New("the server does not start again"), err)
}
