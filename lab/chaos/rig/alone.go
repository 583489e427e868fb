package rig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// alone prepares a test of how many connections a process opens. Each process has only one
// goroutine, which often gives up a request while the network is slow. The faults do not end
// connections, so a process never has to replace a connection. A process needs only two: one for
// requests and one for messages.
//
// A process that gives up a request must keep the connection on which it sent the request. On
// another connection, the release of the lock could overtake the request. The name would then stay
// locked, and the run would break the invariant I6 or I8.
func alone(query string) func(*Site) *setup {
	return func(s *Site) *setup {
		servers := s.redis(1, server.RedisOptions{})
		set := s.through(servers, redisURL(0, query))
		set.faults = slices.DeleteFunc(append(set.faults, faultsOf(servers, 4*time.Second, redisHits...)...), func(f soak.Fault) bool {
			_, harmless := connectionsFor[f.Kind]
			return !harmless
		})
		set.goroutines, set.load = 1, impatient
		set.check = func(out *soak.Outcome) (broken string, err error) {
			err = try(func() { broken = tooManyConnections(servers[0], out, s.Workers) })
			return broken, err
		}
		return set
	}
}

// connectionsFor contains the faults that do not end connections. The value is how many connections
// the rig itself opens to cause the fault.
var connectionsFor = map[string]int{"latency": 0, "script flush": 1, "memory full": 2}

// impatient sets a load in which callers often give up a request. There are two kinds of names.
// Some names are held by other processes, so that callers have to wait for them. Each of the other
// names is used by only one caller, which has to wait only if the network is slow.
func impatient(l *soak.Load) {
	l.Hot, l.Warm, l.ToHot, l.Own, l.Cancel = 1, 8, 30, 30, 40
	l.MinTTL, l.MaxTTL = time.Second, 2*time.Second
	l.HandOff, l.Pause = 0, 0
}

var received = regexp.MustCompile(`total_connections_received:(\d+)`)

// tooManyConnections returns a text if the workers opened more connections than they need. The
// limit includes the connections that the engine opens to look at the store at the beginning and
// the end of the run. A worker that was killed or stopped may open two more: after a stop, the
// worker may rightly conclude that its connections are dead.
func tooManyConnections(s *server.Server, out *soak.Outcome, workers int) string {
	info := askRedis(s, "INFO", "stats")
	m := received.FindStringSubmatch(info)
	if m == nil {
		must(fmt.Errorf("INFO stats says %q", info))
	}
	made := got(strconv.Atoi(m[1]))
	const ofEach, ofEngine = 2, 12
	may, late := ofEach*workers+ofEngine, 0
	for _, e := range out.Events {
		switch {
		case e.Op == soak.Killed, e.Op == soak.Faulted && e.Err == "stop worker":
			may += ofEach
		case e.Op == soak.Faulted:
			may += connectionsFor[e.Err]
		case e.Op == soak.Refused && e.Err != "held":
			late++
		}
	}
	if made > may {
		return fmt.Sprintf("I7 the server got %d connections, and %d are enough; %d requests were given up", made, may, late)
	}
	return ""
}
