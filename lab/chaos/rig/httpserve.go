package rig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// servedTTL is the max-ttl of the servers of padlock. After a restart of Redis, their restart guard
// waits for the same time.
const servedTTL = 12 * time.Second

// backIn is how soon after such a restart the servers grant again, in addition to servedTTL.
const backIn = 10 * time.Second

// serveRedis returns two servers of padlock for a Redis.
func serveRedis(o server.RedisOptions, query string) func(*Site) *serving {
	return func(s *Site) *serving {
		servers := s.redis(1, o)
		faults := s.redisFaults(servers, o)
		for i := range faults {
			if strings.HasPrefix(faults[i].Kind, "restart") || faults[i].Kind == backupKind {
				faults[i].Grace += servedTTL - guardTTL
			}
		}
		return s.serveTwo(servers[0], func(at string) string { return fmt.Sprintf("redis://%s?max-ttl=%v&%s", at, servedTTL, query) }, faults)
	}
}

// servePostgres returns two servers of padlock for PostgreSQL.
func servePostgres(s *Site) *serving { return postgresBehind(s) }

func postgresBehind(s *Site, flags ...string) *serving {
	srv := postgresServer(s, "")
	prepare(postgresURL(srv.Addr()))
	alive := func() error { return postgreSQL.revive(postgresURL(srv.Addr()), srv) }
	return s.serveTwo(srv, postgresURL, supervised(alive, append(postgreSQL.serverFaults(srv, ""), s.clockFaults()...)), flags...)
}

// serveTwo starts two servers of padlock, each with its own way to the store. The faults are those
// of the store.
func (s *Site) serveTwo(store *server.Server, storeURL func(at string) string, faults []soak.Fault, flags ...string) *serving {
	binaries := slices.Repeat([]string{got(server.BuildPadlock(s.dir))}, 2)
	if s.mixed {
		binaries[1] = s.buildCommit(landedCommit, padlockProgram)
	}
	ways := s.proxies(2, store.Addr())
	var servers []*server.Server
	for i, way := range ways {
		servers = append(servers, server.Padlock(&s.host, binaries[i], storeURL(way[0].Addr()), flags...))
	}
	faults = append(renamed(networkFaults(ways), "server's way"), faults...)
	return &serving{
		addrs: addrs(servers), faults: append(faults, serveFaults(servers)...),
		log: func() string { return servers[0].Log() + servers[1].Log() },
	}
}

// serveFaults returns the faults of the servers of padlock, which never hit both at once.
func serveFaults(servers []*server.Server) []soak.Fault {
	return oneAtATime("serve", faultsOf(servers, 4*time.Second,
		hit{"serve killed", 8, 2 * time.Second, (*server.Server).Kill, again},
		hit{"serve ended", 3, 2 * time.Second, (*server.Server).Stop, again},
		hit{"serve stopped", 3, 2 * time.Second, (*server.Server).Pause, (*server.Server).Resume},
	))
}

// again starts a server of padlock that has ended. It does not start while it cannot reach the
// store, so again tries for a while, as a supervisor does.
func again(s *server.Server) {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = try(func() { s.Restart(true) }); err == nil {
			return
		}
	}
	must(fmt.Errorf("the server does not start again: %w", err))
}
