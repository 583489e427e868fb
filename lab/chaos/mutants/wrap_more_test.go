package mutants

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// noCoolDown frees at once a name that should cool down.
type noCoolDown struct{ onServer }

func (s noCoolDown) Release(ctx context.Context, name, token string, _ time.Duration) (driver.Outcome, error) {
	return s.Store.Release(ctx, name, token, 0)
}

// anyBreak breaks any hold, whatever its fence.
type anyBreak struct{ onServer }

func (s anyBreak) Break(ctx context.Context, name string, seenFence uint64) (uint64, error) {
	if state, err := s.Store.(driver.Admin).Inspect(ctx, name); err == nil {
		seenFence = max(seenFence, state.Fence)
	}
	return s.onServer.Break(ctx, name, seenFence)
}

// unqueued polls instead of waiting in the queue, in every second process.
type unqueued struct {
	onServer
	*shared
	polls bool
}

func (s unqueued) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if !s.polls {
		return s.onServer.Wait(ctx, r, reserve)
	}
	select {
	case <-time.After(500 * time.Millisecond):
		return driver.Grant{}, nil
	case <-ctx.Done():
		return driver.Grant{}, ctx.Err()
	}
}

// passing passes locks on, as a store on a server does.
type passing struct{ onServer }

func (s passing) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	out, g, err := s.Store.(fast.Passer).Pass(ctx, token, next)
	g.From = 0
	return out, g, err
}

// lossyPass loses one in five replies to Pass.
type lossyPass struct {
	passing
	*shared
}

func (s lossyPass) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	out, g, err := s.passing.Pass(ctx, token, next)
	if err == nil && s.every(5, "pass") {
		lost.Store(next.Token.Text(), true)
		return driver.OutcomeGone, driver.Grant{}, driver.ErrUncertain
	}
	return out, g, err
}

// lost holds the tokens of hand-overs whose reply was lost.
var lost sync.Map

// orphaned forgets the hold of a lost hand-over, like a waiter that gives up and does not consider
// that it may have been granted the lock.
type orphaned struct{ lossyPass }

func (s orphaned) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if _, known := lost.Load(token); known {
		return driver.OutcomeGone, nil
	}
	return s.lossyPass.Release(ctx, name, token, keep)
}

// haunted keeps the place of some waiters that gave up. When it is their turn, the name goes to
// nobody. The places last for as long as any waiter of the process waits for any name.
type haunted struct {
	onServer
	*shared
	waiters atomic.Int32
}

func (s *haunted) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	s.waiters.Add(1)
	defer s.waiters.Add(-1)
	g, err := s.onServer.Wait(ctx, r, reserve)
	if err != nil && ctx.Err() != nil && !r.Shared && s.every(10, "given up") {
		go s.haunt(driver.Request{Name: r.Name, Token: driver.TokenOf(r.Token.Text() + "ghost"), TTL: 2 * time.Second, Holder: r.Holder})
	}
	return g, err
}

func (s *haunted) haunt(r driver.Request) {
	ctx := context.Background()
	for s.waiters.Load() > 0 {
		s.Store.Acquire(ctx, r) // with the same token it also extends the lease
		<-time.After(20 * time.Millisecond)
	}
	s.Store.Release(ctx, r.Name, r.Token.Text(), 0)
}
