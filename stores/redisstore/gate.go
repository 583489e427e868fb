package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// gate checks the servers before requests are sent.
//
// The gate is open if all servers were checked after the last connection was made, and the check
// found no reason to refuse locks. While the gate is open, it costs a request one atomic load.
// Whenever a connection is made or lost, the gate closes, and the next request checks the servers
// again.
//
// The check runs in its own goroutine. If it ran in the goroutine of the first request, the client
// would dial with the context of that request, and all other requests would wait for the dial even
// after their own contexts had ended.
type gate struct {
	option rueidis.ClientOption
	open   atomic.Bool
	client atomic.Pointer[connected]
	turns  atomic.Uint64 // number of connections made and lost

	mu        sync.Mutex
	running   *serverCheck   // the check that is running, or nil
	seen      uint64         // what gate.turns was at the last check that succeeded
	checkedAt driver.Instant // the time of that check
	nodes     []node         // the servers, as found by that check
	why       error          // the reason not to grant locks, or nil
	holdOff   driver.Instant // the end of the restart guard
}

// connected is the client of a Store. A Store has no client until it has reached a server for the
// first time.
type connected struct {
	rueidis.Client
	setting string     // the first argument of the full scripts
	counts  string     // how scripts send messages; see messagesToAll
	owners  slotOwners // nil if messages go to all servers
}

// serverCheck is one check of the servers.
type serverCheck struct {
	done chan struct{}
	err  error
}

// countTurn is called when a connection was made or lost. It closes the gate, and increases turns
// so that a check which is running does not open the gate again.
func (g *gate) countTurn() {
	g.turns.Add(1)
	g.open.Store(false)
}

// readyClient does the same as prepare, and returns the client. It costs nothing while the gate is
// open.
func (s *Store) readyClient(ctx context.Context, grants bool) (*connected, error) {
	if !s.gate.open.Load() {
		if err := s.prepare(ctx, grants); err != nil {
			return nil, err
		}
	}
	return s.gate.client.Load(), nil
}

// prepare makes sure that the last check of the servers is new enough: it must have begun after the
// last time that a connection was made or lost. If necessary, prepare waits for a new check. If
// grants is true, the caller wants to take a lock. Then prepare returns an error if the last check
// found a reason to refuse locks, or if the restart guard refuses them.
func (s *Store) prepare(ctx context.Context, grants bool) error {
	g := &s.gate
	g.mu.Lock()
	stale := g.seen != g.turns.Load() || g.why != nil && s.clock.Now().Sub(g.checkedAt) > time.Second
	if g.client.Load() == nil || stale {
		l, err := s.startCheck()
		g.mu.Unlock()
		if err == nil {
			err = s.awaitCheck(ctx, l)
		}
		if err != nil {
			return err
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if !grants {
		return nil
	}
	return g.reasonAgainst(s.clock.Now())
}

// startCheck starts a check, or returns the check that is running. The caller holds mu.
func (s *Store) startCheck() (*serverCheck, error) {
	g := &s.gate
	if g.running == nil {
		l := &serverCheck{done: make(chan struct{})}
		if !s.background(func() { s.checkServers(l) }) {
			return nil, driver.ErrClosed
		}
		g.running = l
	}
	return g.running, nil
}

func (s *Store) awaitCheck(ctx context.Context, l *serverCheck) error {
	t := time.NewTimer(callTimeout)
	defer t.Stop()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return unavailable("the server does not answer")
	}
}

// checkServers asks the servers and judges their replies.
func (s *Store) checkServers(l *serverCheck) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	turns, nodes, err := s.serverInfo(ctx)
	g := &s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.seen, g.nodes, g.checkedAt = turns, nodes, s.clock.Now()
		s.judge()
		s.shareMessages()
		g.reasonAgainst(g.checkedAt) // opens the gate
	}
	l.err = err
	g.running = nil
	close(l.done)
}

// reasonAgainst returns the reason not to grant locks. If there is no reason, it opens the gate.
// The caller holds mu.
func (g *gate) reasonAgainst(now driver.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.holdOff > now:
		return unavailable("the server has restarted and may have lost locks; it gives new ones in %v (restart guard)",
			(g.holdOff.Sub(now) + time.Second - 1).Truncate(time.Second)) // never 0
	}
	if g.seen == g.turns.Load() {
		g.open.Store(true)
		if g.seen != g.turns.Load() { // a connection was made or lost since the line above: stay closed
			g.open.Store(false)
		}
	}
	return nil
}

// forbids returns why the last check decided that no locks may be granted, or nil. It ignores the
// restart guard, which refuses locks for a limited time only.
func (g *gate) forbids() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// answering returns the addresses of the primaries that answered the last check.
func (g *gate) answering() (addrs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.nodes {
		if n := &g.nodes[i]; n.err == nil && !n.replica() {
			addrs = append(addrs, n.addr)
		}
	}
	return addrs
}

func (g *gate) close() {
	g.open.Store(false)
	if c := g.client.Load(); c != nil {
		c.Close()
	}
}
