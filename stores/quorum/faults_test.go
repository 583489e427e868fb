package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

// server is one member's server: a memstore that can lose its data and whose
// clock can be set.
type server struct {
	clock *settable
	mu    sync.Mutex
	store *memstore.Store
}

func newServer() *server {
	s := &server{clock: &settable{Clock: driver.SystemClock()}}
	s.restart()
	return s
}

// restart makes the server forget everything.
func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead := s.clock.ahead.Swap(0)
	s.store = memstore.New(memstore.WithClock(s.clock), memstore.MaxTTL(driver.MaxTTL))
	s.clock.ahead.Store(ahead) // fences follow the clock from here
}

func (s *server) now() *memstore.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// settable is a clock that can be set forward.
type settable struct {
	driver.Clock
	ahead atomic.Int64
}

func (c *settable) Now() driver.Instant { return c.Clock.Now() + driver.Instant(c.ahead.Load()) }

// fault is what happens to a request.
type fault struct {
	down  bool          // refused at once: nothing was changed
	lost  bool          // it never arrives
	mute  bool          // its reply never comes
	reset bool          // the caller notices at once that no reply comes
	after time.Duration // it arrives so much later, even if nobody waits any more
}

var (
	down      = fault{down: true}
	silent    = fault{lost: true, mute: true}
	lostReply = fault{mute: true, reset: true}
	lostCall  = fault{lost: true, mute: true, reset: true}
)

// slow returns a fault: the request arrives late, and its reply comes if somebody still waits.
func slow(d time.Duration) fault { return fault{after: d} }

// late returns a fault: the caller gets the error of a broken connection at once, and the request
// arrives later.
func late(d time.Duration) fault { return fault{after: d, mute: true, reset: true} }

// link is one client's way to one server. The field plan decides the faults.
type link struct {
	srv    *server
	mu     sync.Mutex
	plan   func(op string) fault
	calls  map[string]int
	spent  map[string]bool // tokens whose release found nothing, which are refused from then on; unused if nil
	closed atomic.Bool
}

// remember makes the member keep each token that it was asked to release and did not have, and
// refuse that token later. A store may do that, because the request for the hold may still have
// been on its way.
func (l *link) remember() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent = make(map[string]bool)
}

func (l *link) isSpent(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent[token]
}

func (l *link) spend(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spent != nil {
		l.spent[token] = true
	}
}

func (l *link) set(plan func(op string) fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

// always gives every request the fault f.
func (l *link) always(f fault) { l.set(func(string) fault { return f }) }

func (l *link) heal() { l.set(nil) }

// next gives the fault f to the next request for op. Other requests have no fault.
func (l *link) next(op string, f fault) {
	met := false
	l.set(func(o string) fault {
		if o == op && !met {
			met = true
			return f
		}
		return fault{}
	})
}

func (l *link) fault(op string) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[op]++
	if l.plan == nil {
		return fault{}
	}
	return l.plan(op)
}

func (l *link) count(op string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[op]
}

// reply is what a call brings back.
type reply[T any] struct {
	v   T
	err error
}

func call[T any](ctx context.Context, l *link, op string, f func(*memstore.Store) (T, error)) (T, error) {
	var none T
	fl := l.fault(op)
	switch {
	case l.closed.Load():
		return none, driver.ErrClosed
	case fl.down:
		return none, fmt.Errorf("%w: connection refused", driver.ErrUnavailable)
	case ctx.Err() != nil:
		return none, ctx.Err()
	}
	arrived, done := make(chan reply[T], 1), make(chan struct{})
	go func() {
		defer close(done)
		if fl.after > 0 {
			<-time.After(fl.after)
		}
		if fl.lost {
			return
		}
		v, err := f(l.srv.now())
		if !fl.mute {
			arrived <- reply[T]{v, err}
		}
	}()
	if fl.mute && fl.reset {
		if fl.after == 0 {
			<-done
		}
		return none, fmt.Errorf("%w: connection reset", driver.ErrUncertain)
	}
	hung := time.NewTimer(driver.MaxSilence)
	defer hung.Stop()
	select {
	case r := <-arrived:
		return r.v, r.err
	case <-ctx.Done():
		return none, errors.Join(driver.ErrUncertain, ctx.Err())
	case <-hung.C:
		return none, fmt.Errorf("%w: silence", driver.ErrUncertain)
	}
}

func (l *link) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return call(ctx, l, "acquire", func(s *memstore.Store) (driver.Grant, error) {
		if l.isSpent(r.Token.Text()) {
			return driver.Grant{}, driver.ErrLost
		}
		return s.Acquire(context.Background(), r)
	})
}

func (l *link) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	return call(ctx, l, "extend", func(s *memstore.Store) (driver.Grant, error) {
		return s.Extend(context.Background(), name, token, ttl)
	})
}

func (l *link) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	return call(ctx, l, "release", func(s *memstore.Store) (driver.Outcome, error) {
		out, err := s.Release(context.Background(), name, token, keep)
		if out == driver.OutcomeGone {
			l.spend(token)
		}
		return out, err
	})
}

func (l *link) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if l.closed.Load() {
		return driver.Grant{}, driver.ErrClosed
	}
	if f := l.fault("wait"); f.down {
		return driver.Grant{}, driver.ErrUnavailable
	} else if f.mute {
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	}
	return l.srv.now().Wait(ctx, r, reserve)
}

func (l *link) Inspect(ctx context.Context, name string) (driver.State, error) {
	return call(ctx, l, "inspect", func(s *memstore.Store) (driver.State, error) { return s.Inspect(context.Background(), name) })
}

func (l *link) List(ctx context.Context, prefix string) ([]driver.State, error) {
	return call(ctx, l, "list", func(s *memstore.Store) ([]driver.State, error) { return s.List(context.Background(), prefix) })
}

func (l *link) Break(ctx context.Context, name string, seen uint64) (uint64, error) {
	return call(ctx, l, "break", func(s *memstore.Store) (uint64, error) { return s.Break(context.Background(), name, seen) })
}

func (l *link) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	_, err := call(ctx, l, "raise", func(s *memstore.Store) (int, error) {
		return 0, s.RaiseFence(context.Background(), name, token, fence)
	})
	return err
}

func (l *link) Guarantees() driver.Guarantees {
	return l.srv.now().Guarantees()
}

func (l *link) Close() error {
	l.closed.Store(true)
	return nil
}

// cluster is servers that several clients reach, each over links of its own.
type cluster []*server

func newCluster(n int) cluster {
	var c cluster
	for range n {
		c = append(c, newServer())
	}
	return c
}

// client is one process's quorum.
type client struct {
	*quorum.Store
	links []*link
}

func (c cluster) client(t testing.TB, rule quorum.Rule, opts ...quorum.Option) *client {
	t.Helper()
	cl := &client{}
	var stores []driver.Store
	for _, srv := range c {
		l := &link{srv: srv, calls: make(map[string]int)}
		cl.links = append(cl.links, l)
		stores = append(stores, l)
	}
	s, err := quorum.New(rule, stores, opts...)
	if err != nil {
		t.Fatal(err)
	}
	cl.Store = s
	for _, l := range cl.links {
		clear(l.calls) // the calls that New made to find out what the members can do
	}
	return cl
}

// these gives the fault f to all requests to the given members, which count from 1.
func (cl *client) these(f fault, members ...int) {
	for _, m := range members {
		cl.links[m-1].always(f)
	}
}

func (cl *client) heal() {
	for _, l := range cl.links {
		l.heal()
	}
}

// holders lists the members, counted from 1, that hold name for anybody.
func (c cluster) holders(name string) (members []int) {
	for i, srv := range c {
		if s, _ := srv.now().Inspect(context.Background(), name); len(s.Holds) > 0 {
			members = append(members, i+1)
		}
	}
	return members
}
