package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// serverChecks checks the servers before requests are sent.
//
// The checks are valid if all servers were checked after the last connection was made, and the
// check found no reason to refuse locks. While they are valid, they cost a request one atomic load.
// Whenever a connection is made or lost, they become invalid, and the next request checks the
// servers again.
//
// The check runs in its own goroutine. If it ran in the goroutine of the first request, the client
// would dial with the context of that request, and all other requests would wait for the dial even
// after their own contexts had ended.
type serverChecks struct {
	option rueidis.ClientOption
	valid  atomic.Bool
	client atomic.Pointer[connected]
	turns  atomic.Uint64 // number of connections made and lost

	mu         sync.Mutex
	running    *serverCheck   // the check that is running, or nil
	seen       uint64         // what turns was at the last check that succeeded
	checkedAt  driver.Instant // the time of that check
	nodes      []node         // the servers, as found by that check
	why        error          // the reason not to grant locks, or nil
	guardUntil driver.Instant // the end of the restart guard
	unread     error          // why the guard cannot know whether the server has restarted, or nil
}

// connected is the client of a Store. A Store has no client until it has reached a server for the
// first time.
type connected struct {
	rueidis.Client
	setting string         // the first argument of the full scripts
	endings []string       // arguments of the scripts that end a hold; see handover.lua
	owners  hashSlotOwners // nil if messages go to all servers
}

// serverCheck is one check of the servers.
type serverCheck struct {
	done chan struct{}
	err  error
}

// countTurn is called when a connection was made or lost. It makes the checks invalid, and
// increases turns so that a check which is running does not make them valid again.
func (g *serverChecks) countTurn() {
	g.turns.Add(1)
	g.valid.Store(false)
}

// ready begins each call of the store. It does the same as prepare, and returns the client. It
// refuses a call that comes after Close, or whose context has ended. It costs nothing while the
// checks are valid.
func (s *Store) ready(ctx context.Context, grants bool) (*connected, error) {
	if s.calls.Closing.Err() != nil {
		return nil, driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.checks.valid.Load() {
		if err := s.prepare(ctx, grants); err != nil {
			return nil, err
		}
	}
	return s.checks.client.Load(), nil
}

// prepare makes sure that the last check of the servers is new enough: it must have begun after the
// last time that a connection was made or lost. If necessary, prepare waits for a new check. If
// grants is true, the caller wants to take a lock. Then prepare returns an error if the last check
// found a reason to refuse locks, or if the restart guard refuses them.
func (s *Store) prepare(ctx context.Context, grants bool) error {
	g := &s.checks
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
	g := &s.checks
	if g.running == nil {
		l := &serverCheck{done: make(chan struct{})}
		if !s.calls.Go(func() { s.checkServers(l) }) {
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
	ctx, cancel := context.WithTimeout(s.calls.Closing, callTimeout)
	defer cancel()
	g := &s.checks
	before := g.turns.Load()
	turns, nodes, err := s.serverInfo(ctx)
	// If the connection is older than this check, a new one may reach the primary.
	if err == nil && turns == before && s.leaveReplica(nodes) {
		turns, nodes, err = s.serverInfo(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.seen, g.nodes, g.checkedAt = turns, nodes, s.clock.Now()
		s.judge()
		s.shareMessages()
		g.reasonAgainst(g.checkedAt) // makes the checks valid
	}
	l.err = err
	g.running = nil
	close(l.done)
}

// leaveReplica ends the connections to a server that is a replica, and reports whether there is
// one. Behind a fixed address, a new connection may reach the primary. In a cluster the client needs
// its connections to replicas.
func (s *Store) leaveReplica(nodes []node) bool {
	left := false
	for i := range nodes {
		if n := &nodes[i]; n.err == nil && n.replica() && !n.cluster {
			s.server.Leave(n.addr)
			left = true
		}
	}
	return left
}

// reasonAgainst returns the reason not to grant locks. If there is no reason, it makes the checks
// valid. The caller holds mu.
func (g *serverChecks) reasonAgainst(now driver.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.guardUntil > now:
		what, left := "the server has restarted", (g.guardUntil.Sub(now) + time.Second - 1).Truncate(time.Second) // never 0
		if g.unread != nil {
			what = fmt.Sprintf("the server may have restarted, because its last run id cannot be read (%v),", g.unread)
		}
		return unavailable("%s and may have lost locks; it gives new ones in %v (restart guard)", what, left)
	}
	if g.seen == g.turns.Load() {
		g.valid.Store(true)
		if g.seen != g.turns.Load() { // a connection was made or lost since the line above: stay closed
			g.valid.Store(false)
		}
	}
	return nil
}

// forbids returns why the last check decided that no locks may be granted, or nil. It ignores the
// restart guard, which refuses locks for a limited time only.
func (g *serverChecks) forbids() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

func (g *serverChecks) close() {
	g.valid.Store(false)
	if c := g.client.Load(); c != nil {
		c.Close()
	}
}
