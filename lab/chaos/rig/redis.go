package rig

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// tell sends a command to a Redis server, whose words have no spaces.
func tell(s *server.Server, command string) error {
	_, err := askRedis(s, strings.Fields(command)...)
	return err
}

// askRedis sends a command to a Redis server and returns the text of the reply.
func askRedis(s *server.Server, args ...string) (string, error) {
	reply, err := server.AskRedis(context.Background(), s.Addr(), args...)
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return reply, err
}

// serverTarget is the prefix of the names of servers as targets of faults.
const serverTarget = "server"

// restart kills the server and starts it again a moment later.
func restart(kind string, servers []*server.Server, keep bool, grace time.Duration) soak.Fault {
	return soak.Fault{Kind: kind, On: soak.Targets(serverTarget, len(servers)), Last: 300 * time.Millisecond, Grace: grace, Begin: func(_ *rand.Rand, i int) (func() error, error) {
		s := servers[i]
		return func() error { return try(func() { s.Restart(keep) }) }, try(s.Kill)
	}}
}

// guardTTL is the max-ttl of all Redis stores in the soak. After a restart of the server, the
// restart guard waits for the same time.
const guardTTL = 2 * time.Second

// urls returns the URL of server i for each worker. The URL leads through the worker's own proxy.
func urls(links [][]*server.Proxy, i int, query string) (out []string) {
	for _, worker := range links {
		out = append(out, fmt.Sprintf("redis://%s?max-ttl=%v&%s", worker[i].Addr(), guardTTL, query))
	}
	return out
}

// redisFaults returns faults of Redis servers. The store must keep its promises during these
// faults, however Redis is configured.
func redisFaults(servers []*server.Server) []soak.Fault {
	on := soak.Targets(serverTarget, len(servers))
	at := func(kind string, weight int, last time.Duration, begin func(*server.Server) error, undo func(*server.Server) error) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: 4 * time.Second, Weight: weight, Begin: func(_ *rand.Rand, i int) (func() error, error) {
			s := servers[i]
			if undo == nil {
				return nil, begin(s)
			}
			return func() error { return undo(s) }, begin(s)
		}}
	}
	say := func(command string) func(*server.Server) error {
		return func(s *server.Server) error { return tell(s, command) }
	}
	return []soak.Fault{
		at("stop server", 2, 1500*time.Millisecond, func(s *server.Server) error { return try(s.Pause) }, func(s *server.Server) error { return try(s.Resume) }),
		at("client kill", 5, 0, say("CLIENT KILL TYPE normal"), nil),
		at("script flush", 5, 0, say("SCRIPT FLUSH"), nil),
		at("memory full", 2, 700*time.Millisecond, say("CONFIG SET maxmemory 1"), say("CONFIG SET maxmemory 0")),
	}
}

// serverFaults returns the faults of Redis servers and their connections.
func (s *Site) serverFaults(servers []*server.Server, links [][]*server.Proxy, o server.RedisOptions) []soak.Fault {
	faults := append(networkFaults(links), redisFaults(servers)...)
	grace := guardTTL + 4*time.Second
	faults = append(faults, flush(servers), restart("restart without data", servers, false, grace))
	if o.Persist || len(o.Args) > 0 {
		faults = append(faults, restart("restart with data", servers, true, grace))
	}
	if s.shim != "" {
		faults = append(faults, jump(s.shim))
	}
	return faults
}

func flush(servers []*server.Server) soak.Fault {
	return soak.Fault{Kind: "flushall", On: soak.Targets(serverTarget, len(servers)), Grace: 4 * time.Second, Begin: func(_ *rand.Rand, i int) (func() error, error) {
		return nil, tell(servers[i], "FLUSHALL")
	}}
}

// jump returns a fault that sets the clocks of all servers forward. It writes the offset of the
// clocks to file, which the clock shim in the servers reads. The clocks are not set back
// afterwards. If they were, leases would last longer than the run.
func jump(file string) soak.Fault {
	offset := int64(0)
	return soak.Fault{Kind: "clock jump", Grace: 4 * time.Second, Weight: 2, Begin: func(d *rand.Rand, _ int) (func() error, error) {
		offset += int64(time.Second) * (1 + d.Int64N(10))
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0)
		return nil, err
	}}
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
	return soak.Fault{Kind: "failover", Last: 300 * time.Millisecond, Grace: 5 * time.Second, Weight: 2, Begin: func(*rand.Rand, int) (func() error, error) {
		f.between.Disturb(server.Trouble{Lose: true}, server.Trouble{Lose: true})
		return func() error {
			defer f.between.Disturb(server.Trouble{}, server.Trouble{})
			return f.promote()
		}, nil
	}}
}

func (f *failover) promote() error {
	old, next := f.servers[0], f.servers[1]
	if err := try(old.Kill); err != nil {
		return err
	}
	if err := tell(next, "REPLICAOF NO ONE"); err != nil {
		return err
	}
	for _, worker := range f.links {
		worker[0].Point(next.Addr())
	}
	f.servers[0], f.servers[1] = next, old
	if err := try(func() { old.Restart(false) }); err != nil {
		return err
	}
	return f.follow()
}

// follow makes the second server a replica of the first.
func (f *failover) follow() error {
	f.between.Point(f.servers[0].Addr())
	host, port, err := net.SplitHostPort(f.between.Addr())
	if err != nil {
		return err
	}
	return tell(f.servers[1], "REPLICAOF "+host+" "+port)
}
