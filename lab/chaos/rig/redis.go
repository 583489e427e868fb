package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// tell sends a command to a Redis server, whose words have no spaces.
func tell(s *server.Server, command string) { askRedis(s, strings.Fields(command)...) }

// askRedis sends a command to a Redis server and returns the text of the reply.
func askRedis(s *server.Server, args ...string) string {
	reply, err := server.AskRedis(context.Background(), s.Addr(), args...)
	if err != nil {
		must(fmt.Errorf("%s: %w", strings.Join(args, " "), err))
	}
	return reply
}

// guardTTL is the max-ttl of all Redis stores in the soak. After a restart of the server, the
// restart guard waits for the same time.
const guardTTL = 2 * time.Second

// redisURL makes the URL of Redis at the given index.
func redisURL(i int, query string) func(at []string) string {
	return func(at []string) string { return fmt.Sprintf("redis://%s?max-ttl=%v&%s", at[i], guardTTL, query) }
}

// redisHits are faults of Redis servers. The store must keep its promises during these faults,
// however Redis is configured.
var redisHits = []hit{
	stopped(2, 1500*time.Millisecond),
	{"client kill", 5, 0, saying("CLIENT KILL TYPE normal"), nil},
	{"script flush", 5, 0, saying("SCRIPT FLUSH"), nil},
	{"memory full", 2, 700 * time.Millisecond, saying("CONFIG SET maxmemory 1"), saying("CONFIG SET maxmemory 0")},
}

// snapshotRestored is a backup that is put back into a Redis that keeps nothing on its disk otherwise.
var snapshotRestored = hit{backupKind, 1, 2 * time.Second, saying("SAVE"), startAgain}

func saying(command string) func(*server.Server) {
	return func(s *server.Server) { tell(s, command) }
}

// redisFaults returns the faults of Redis servers.
func (s *Site) redisFaults(servers []*server.Server, o server.RedisOptions) []soak.Fault {
	faults := faultsOf(servers, 4*time.Second, append(slices.Clone(redisHits), hit{kind: "flushall", begin: saying("FLUSHALL")})...)
	restarts, backup := []hit{restarted("restart without data", false)}, snapshotRestored
	if o.Persist || len(o.Args) > 0 {
		restarts, backup = append(restarts, restarted("restart with data", true)), backupRestored("appendonlydir")
	}
	restarts = append(restarts, backup)
	faults = append(append(faults, faultsOf(servers, guardTTL+4*time.Second, restarts...)...), s.clockFaults()...)
	if s.oldest {
		// A padlock before fd2f31ee may lose a hold then (docs/internals/kinds/35-two-clocks.md). When
		// olderCommit is later, this has to go.
		faults = slices.DeleteFunc(faults, func(f soak.Fault) bool { return f.Kind == clockSetBack })
	}
	return faults
}

// failover has a primary and its replica. Its fault cuts the link between the two, kills the
// primary a moment later and makes the replica the primary, as a Sentinel would. After that, the
// old primary comes back as the replica, without data.
type failover struct {
	servers []*server.Server // the first one is the primary
	links   [][]*server.Proxy
	between *server.Proxy
}

func (f *failover) fault() soak.Fault {
	return soak.Fault{Kind: "failover", Last: 300 * time.Millisecond, Grace: 5 * time.Second, Weight: 2, Begin: begin(func(*rand.Rand, int) func() {
		f.between.Disturb(server.Trouble{Lose: true}, server.Trouble{Lose: true})
		return func() {
			defer f.between.Disturb(server.Trouble{}, server.Trouble{})
			f.promote()
		}
	})}
}

func (f *failover) promote() {
	old, next := f.servers[0], f.servers[1]
	old.Kill()
	tell(next, "REPLICAOF NO ONE")
	for _, worker := range f.links {
		worker[0].Point(next.Addr())
	}
	f.servers[0], f.servers[1] = next, old
	old.Restart(false)
	f.follow()
}

// follow makes the second server a replica of the first.
func (f *failover) follow() {
	f.between.Point(f.servers[0].Addr())
	tell(f.servers[1], "REPLICAOF "+strings.ReplaceAll(f.between.Addr(), ":", " "))
}
