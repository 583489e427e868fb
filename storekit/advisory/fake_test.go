package advisory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A server has locks that end with a session. A session may take a lock several times.
type server struct {
	mu     sync.Mutex
	owner  map[string]*session
	queue  map[string][]chan struct{} // closed when it is a waiter's turn to look
	fences map[string]uint64
}

func newServer() *server {
	return &server{owner: map[string]*session{}, queue: map[string][]chan struct{}{}, fences: map[string]uint64{}}
}

// A session is one side of a connection, and the server's.
type session struct {
	srv   *server
	bound context.Context
	end   context.CancelCauseFunc
	locks map[string]int // guarded by srv.mu
	left  bool           // the session goes on after its connection has ended
}

func (s *session) Bound() context.Context { return s.bound }
func (s *session) Watch()                 { <-s.bound.Done() }
func (s *session) Lose(err error)         { s.over(fmt.Errorf("%w: %w", driver.ErrLost, err)) }
func (s *session) Close()                 { s.over(driver.ErrClosed) }

// over ends the connection, and with it the session, unless the session was left behind.
func (s *session) over(cause error) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	if s.end(cause); !s.left {
		s.free()
	}
}

// free ends all locks of a session. The caller holds srv.mu.
func (s *session) free() {
	for key := range s.locks {
		s.srv.unlock(s, key)
	}
}

func (v *server) unlock(s *session, key string) bool {
	if v.owner[key] != s {
		return false
	}
	delete(s.locks, key)
	delete(v.owner, key)
	if q := v.queue[key]; len(q) > 0 {
		close(q[0])
		v.queue[key] = q[1:]
	}
	return true
}

// waiting counts the sessions that wait for the lock of a name.
func (v *server) waiting(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.queue["key of "+name])
}

var errCut = errors.New("the connection was cut")

// A dialect talks to a server. Each store has its own.
type dialect struct {
	plain[*session]
	srv *server

	mu       sync.Mutex
	sessions []*session
	loses    bool // the next reply to a statement that changes something is lost
	deaf     bool // a wait does not end with its context

	before func(r *driver.Request) // if not nil, Try calls it first
}

// on runs a statement of a session.
func (d *dialect) on(c *session, changes bool, f func()) error {
	d.srv.mu.Lock()
	if c.bound.Err() != nil {
		d.srv.mu.Unlock()
		return &storekit.NoReply{Err: context.Cause(c.bound), Unsent: true}
	}
	f()
	d.mu.Lock()
	lost := changes && d.loses
	d.loses = d.loses && !lost
	d.mu.Unlock()
	c.left = c.left || lost
	d.srv.mu.Unlock()
	if lost {
		c.Lose(errCut)
		return &storekit.NoReply{Err: errCut}
	}
	return nil
}

func (d *dialect) Connect(context.Context) (*session, error) {
	c := &session{srv: d.srv, locks: map[string]int{}}
	c.bound, c.end = context.WithCancelCause(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = append(d.sessions, c)
	return c, nil
}

func (d *dialect) Key(name string) string { return "key of " + name }

// cut breaks all connections.
func (d *dialect) cut() {
	d.mu.Lock()
	all := slices.Clone(d.sessions)
	d.mu.Unlock()
	for _, c := range all {
		c.Lose(errCut)
	}
}

// grant takes a lock that is free or that the session has. The caller holds srv.mu.
func (d *dialect) grant(c *session, key string, r *driver.Request) (g advisory.Grant, err error) {
	if o := d.srv.owner[key]; o != nil && o != c {
		return g, nil
	}
	next := max(uint64(time.Now().UnixMicro()), d.srv.fences[key]+1, r.FenceAbove+1)
	if next >= driver.MaxFence {
		return g, driver.ErrFencesUsedUp
	}
	d.srv.owner[key], d.srv.fences[key] = c, next
	c.locks[key]++
	return advisory.Grant{Granted: true, Fence: next}, nil
}

func (d *dialect) Try(c *session, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	if d.before != nil {
		d.before(r)
	}
	if lost := d.on(c, true, func() { g, err = d.grant(c, l.Key, r) }); lost != nil {
		return advisory.Grant{}, lost
	}
	return g, err
}

func (d *dialect) Await(ctx context.Context, c *session, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	for {
		turn := make(chan struct{})
		lost := d.on(c, false, func() {
			if g, err = d.grant(c, l.Key, r); err == nil && !g.Granted {
				d.srv.queue[l.Key] = append(d.srv.queue[l.Key], turn)
			}
		})
		switch {
		case lost != nil:
			return advisory.Grant{}, lost
		case err != nil || g.Granted:
			return g, err
		}
		select {
		case <-turn:
		case <-c.bound.Done():
			d.leave(l.Key, turn)
		case <-d.ended(ctx):
			d.leave(l.Key, turn)
			return advisory.Grant{}, nil
		}
	}
}

func (d *dialect) ended(wait context.Context) <-chan struct{} {
	if d.deaf {
		return nil
	}
	return wait.Done()
}

func (d *dialect) EndWait(_, _ *session) error { return nil }

// leave gives up a place in the queue, or passes the turn on.
func (d *dialect) leave(key string, turn chan struct{}) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	q := d.srv.queue[key]
	if i := slices.Index(q, turn); i >= 0 {
		d.srv.queue[key] = slices.Delete(q, i, i+1)
	} else if len(q) > 0 {
		close(q[0])
		d.srv.queue[key] = q[1:]
	}
}

func (d *dialect) Claim(c *session) error { return d.on(c, false, func() {}) }

func (d *dialect) Unlock(c *session, l advisory.Lock, _ bool) (had bool, err error) {
	err = d.on(c, true, func() { had = d.srv.unlock(c, l.Key) })
	return had, err
}

func (d *dialect) Verify(c *session, l advisory.Lock) error {
	has := true
	err := d.on(c, false, func() { has = l == advisory.Lock{} || d.srv.owner[l.Key] == c })
	if err == nil && !has {
		err = errors.New("the session did not have the lock")
		c.Lose(err)
	}
	return err
}

func (d *dialect) RaiseFence(c *session, l advisory.Lock, _ driver.Holder, fence uint64) error {
	return d.on(c, true, func() { d.srv.fences[l.Key] = max(d.srv.fences[l.Key], fence) })
}

// Settle ends the session at the second call.
func (d *dialect) Settle(c, lost *session, _ advisory.Lock) (gone bool, err error) {
	err = d.on(c, false, func() {
		if gone = !lost.left; !gone {
			lost.left = false
			lost.free()
		}
	})
	return gone, err
}

func (d *dialect) Holders(c *session, l advisory.Lock) (holds []driver.Hold, fence uint64, err error) {
	err = d.on(c, false, func() {
		if fence = d.srv.fences[l.Key]; d.srv.owner[l.Key] != nil {
			holds = []driver.Hold{{}}
		}
	})
	return holds, fence, err
}

func (d *dialect) LooksFree(c *session, l advisory.Lock, _ bool) (free bool, err error) {
	err = d.on(c, false, func() { free = d.srv.owner[l.Key] == nil })
	return free, err
}

func (d *dialect) Place() (string, any) { return "", d.srv }

// A plain has the methods of a dialect whose server has nothing to say: nobody shares its sessions,
// and its table of fences is always there.
type plain[C any] struct{}

func (plain[C]) SetUp(C) error                                            { return nil }
func (plain[C]) Conflict(_, _ C) error                                    { return nil }
func (plain[C]) Probes(C, bool) int                                       { return 0 }
func (plain[C]) Fence(C, string) (uint64, bool, error)                    { return advisory.TableVersion, true, nil }
func (plain[C]) VersionKey() string                                       { return "version" }
func (plain[C]) Lacks(error) (table, rights bool)                         { return false, false }
func (plain[C]) MakeTable(C) error                                        { return nil }
func (plain[C]) SweepDue(C, time.Duration) (bool, error)                  { return false, nil }
func (plain[C]) Sweep(C, string, int, time.Duration) (int, string, error) { return 0, "", nil }
