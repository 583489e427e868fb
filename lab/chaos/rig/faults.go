package rig

import (
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
)

// serverTarget is the prefix of the names of servers as targets of faults.
const serverTarget = "server"

// A hit is a fault of one of several servers. Its functions run within try. If end is nil, the fault
// is over at once.
type hit struct {
	kind       string
	weight     int
	last       time.Duration
	begin, end func(*server.Server)
}

// faultsOf returns the faults of the servers, after which the store may refuse requests for the
// grace.
func faultsOf(servers []*server.Server, grace time.Duration, hits ...hit) (faults []soak.Fault) {
	for _, h := range hits {
		faults = append(faults, soak.Fault{Kind: h.kind, On: soak.Targets(serverTarget, len(servers)), Last: h.last, Grace: grace, Weight: h.weight, Begin: begin(func(_ *rand.Rand, i int) (undo func()) {
			srv := servers[i]
			h.begin(srv)
			if h.end == nil {
				return nil
			}
			return func() { h.end(srv) }
		})})
	}
	return faults
}

// begin makes the Begin of a fault whose functions run within try. If undo is nil, the fault is over
// at once.
func begin(f func(d *rand.Rand, on int) (undo func())) func(*rand.Rand, int) (func() error, error) {
	return func(d *rand.Rand, on int) (end func() error, err error) {
		err = try(func() {
			if undo := f(d, on); undo != nil {
				end = func() error { return try(undo) }
			}
		})
		return end, err
	}
}

// stopped is a fault in which a server stands still.
func stopped(weight int, last time.Duration) hit {
	return hit{"stop server", weight, last, (*server.Server).Pause, (*server.Server).Resume}
}

// restarted is a fault in which a server is killed, and starts again a moment later.
func restarted(kind string, keep bool) hit {
	return hit{kind, 1, 300 * time.Millisecond, (*server.Server).Kill, func(s *server.Server) { s.Restart(keep) }}
}

// startAgain starts a server that has ended, or is about to end.
func startAgain(s *server.Server) {
	s.Kill()
	s.Restart(true)
}

// oneAtATime changes faults of servers so that they hit one server at a time. Otherwise the servers
// that are left may be no majority, and a slot of Redis cannot be moved while a primary stands still.
func oneAtATime(target string, faults []soak.Fault) []soak.Fault {
	for i, f := range faults {
		faults[i].On = []string{target}
		faults[i].Begin = func(d *rand.Rand, _ int) (func() error, error) { return f.Begin(d, d.IntN(len(f.On))) }
	}
	return faults
}
