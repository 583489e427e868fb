package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// gate stands before every request. It is open while each connection was
// looked at since it was made, and nothing stands against grants; then a
// request costs one atomic load. A connection that is made or lost closes it,
// and the next request looks again, in a goroutine of its own: the client
// would dial with the context of whoever comes first, and let all others wait
// without theirs.
type gate struct {
	option rueidis.ClientOption
	open   atomic.Bool
	client atomic.Pointer[connected]
	turns  atomic.Uint64 // connections made and lost

	mu       sync.Mutex
	looking  *look          // under way
	seen     uint64         // turns, at the last look that succeeded
	lookedAt driver.Instant // when that was
	nodes    []node         // as it found them
	why      error          // what stands against grants, or nil
	holdOff  driver.Instant // the end of the restart guard
}

// connected is the client, once it has been reached.
type connected struct {
	rueidis.Client
	setting string // the first argument of the full scripts
	counts  string // whether PUBLISH tells how many listen: 1 or 0
}

// look is one look at the servers.
type look struct {
	done chan struct{}
	err  error
}

// turn is called when a connection was made or lost.
func (g *gate) turn() {
	g.turns.Add(1)
	g.open.Store(false)
}

// ready is prepare, for when the gate is open at no cost.
func (s *Store) ready(ctx context.Context, grants bool) (*connected, error) {
	if !s.gate.open.Load() {
		if err := s.prepare(ctx, grants); err != nil {
			return nil, err
		}
	}
	return s.gate.client.Load(), nil
}

// prepare waits until the servers have been looked at since the last turn.
// With grants it also says what stands against them.
func (s *Store) prepare(ctx context.Context, grants bool) error {
	g := &s.gate
	g.mu.Lock()
	stale := g.seen != g.turns.Load() || g.why != nil && s.clock.Now().Sub(g.lookedAt) > time.Second
	if g.client.Load() == nil || stale {
		l, err := s.startLook()
		g.mu.Unlock()
		if err == nil {
			err = s.awaitLook(ctx, l)
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
	return g.against(s.clock.Now())
}

// startLook begins a look, or joins the one under way. The caller holds mu.
func (s *Store) startLook() (*look, error) {
	g := &s.gate
	if g.looking == nil {
		l := &look{done: make(chan struct{})}
		if !s.background(func() { s.look(l) }) {
			return nil, driver.ErrClosed
		}
		g.looking = l
	}
	return g.looking, nil
}

func (s *Store) awaitLook(ctx context.Context, l *look) error {
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

// look asks the servers and judges what they say.
func (s *Store) look(l *look) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	turns, nodes, err := s.serverInfo(ctx)
	g := &s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.seen, g.nodes, g.lookedAt = turns, nodes, s.clock.Now()
		s.judge()
		g.against(g.lookedAt) // opens the gate
	}
	l.err = err
	g.looking = nil
	close(l.done)
}

// against says what stands against grants; if nothing does it opens the gate.
// The caller holds mu.
func (g *gate) against(now driver.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.holdOff > now:
		return unavailable("the server has restarted and may have lost locks; it gives new ones in %v (restart guard)",
			(g.holdOff.Sub(now) + time.Second - 1).Truncate(time.Second)) // never 0
	}
	if g.seen == g.turns.Load() {
		g.open.Store(true)
		if g.seen != g.turns.Load() { // a turn in between must not be painted over
			g.open.Store(false)
		}
	}
	return nil
}

// forbids says what stands against grants and does not pass by itself.
func (g *gate) forbids() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

func (g *gate) close() {
	g.open.Store(false)
	if c := g.client.Load(); c != nil {
		c.Close()
	}
}
