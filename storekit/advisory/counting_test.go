package advisory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// A counting server counts how often each session has a lock, as PostgreSQL does, and a session
// never waits for itself. While the server is faulty, it refuses some statements or ends the
// connection, before the statement had an effect or after it.
type counting struct {
	mu      sync.Mutex
	locks   map[string]map[*counted][2]int // exclusive and shared
	changed chan struct{}                  // closed when a lock becomes free
	fence   uint64
	faulty  atomic.Bool // one in forty statements has a fault
	wrong   []string    // what a store has done wrong
}

func newCounting() *counting {
	return &counting{locks: map[string]map[*counted][2]int{}, changed: make(chan struct{})}
}

// A counted is a session of a counting server.
type counted struct {
	srv   *counting
	turn  sync.Mutex // held while a statement runs
	bound context.Context
	end   context.CancelCauseFunc
	// srv.mu guards these fields.
	excuse bool // the server had a fault in this session
	left   bool // the session goes on after its connection has ended
}

func (s *counted) Bound() context.Context { return s.bound }
func (s *counted) Watch()                 { <-s.bound.Done() }
func (s *counted) Close()                 { s.over(driver.ErrClosed) }

// Lose notes every loss of several locks that has no reason.
func (s *counted) Lose(err error) {
	s.srv.mu.Lock()
	n := 0
	for _, l := range s.srv.locks {
		n += l[s][0] + l[s][1]
	}
	if n > 1 && s.bound.Err() == nil && !s.excuse {
		s.srv.wrong = append(s.srv.wrong, fmt.Sprintf("a connection was given up without a fault of it: %v", err))
	}
	s.srv.mu.Unlock()
	s.over(fmt.Errorf("%w: %w", driver.ErrLost, err))
}

func (s *counted) over(cause error) {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	if s.end(cause); !s.left {
		s.free()
	}
}

// free ends all locks of a session. The caller holds srv.mu.
func (s *counted) free() {
	for _, l := range s.srv.locks {
		delete(l, s)
	}
	s.srv.announce()
}

// linger makes the session go on for a while after its connection has ended. The caller holds
// srv.mu.
func (s *counted) linger() {
	s.left = true
	time.AfterFunc(rand.N(3*time.Millisecond), func() {
		s.srv.mu.Lock()
		defer s.srv.mu.Unlock()
		s.left = false
		s.free()
	})
}

func (v *counting) announce() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// grant takes a lock. The caller holds mu.
func (v *counting) grant(c *counted, key string, shared bool) bool {
	for o, n := range v.locks[key] {
		if o != c && (n[0] > 0 || !shared && n[1] > 0) {
			return false
		}
	}
	if v.locks[key] == nil {
		v.locks[key] = map[*counted][2]int{}
	}
	n := v.locks[key][c]
	n[mode(shared)]++
	v.locks[key][c] = n
	return true
}

// unlock gives back a lock. The caller holds mu.
func (v *counting) unlock(c *counted, key string, shared bool) bool {
	n := v.locks[key][c]
	if n[mode(shared)] == 0 {
		return false
	}
	if n[mode(shared)]--; n == [2]int{} {
		delete(v.locks[key], c)
	} else {
		v.locks[key][c] = n
	}
	v.announce()
	return true
}

// locked reports whether a session has a lock.
func (v *counting) locked(key string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.locks[key]) > 0
}

func mode(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

var errRefused = errors.New("out of memory")

// A counter is the dialect of a counting server.
type counter struct {
	plain[*counted]
	srv    *counting
	before func(c *counted, what string) error // if not nil, every statement calls it first
	after  func(c *counted, what string) error // and this last
}

var _ interface {
	advisory.Dialect[*counted]
	advisory.Sharer[*counted]
} = (*counter)(nil)

func pause() {
	if runtime.Gosched(); rand.N(40) == 0 {
		<-time.After(rand.N(300 * time.Microsecond))
	}
}

// on runs a statement of a session.
func (d *counter) on(c *counted, what string, f func()) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if d.srv.faulty.Load() {
		pause()
		defer pause()
	}
	if d.before != nil {
		if err := d.before(c, what); err != nil {
			return err
		}
	}
	d.srv.mu.Lock()
	if c.bound.Err() != nil {
		d.srv.mu.Unlock()
		return &storekit.NoReply{Err: context.Cause(c.bound), Unsent: true}
	}
	var cut, refused bool
	late := rand.N(2) == 0
	if d.srv.faulty.Load() && rand.N(40) == 0 {
		cut = rand.N(2) == 0
		refused = !cut && (!late || what == "try" || what == "unlock" || what == "withdraw")
	}
	if !cut && !refused || late {
		f()
	}
	c.excuse = c.excuse || cut || refused
	if cut { // at once, because the lingering session may end before Lose is called
		c.end(fmt.Errorf("%w: %w", driver.ErrLost, errCut))
		c.linger()
	}
	d.srv.mu.Unlock()
	switch {
	case cut:
		c.Lose(errCut)
		return &storekit.NoReply{Err: errCut}
	case refused:
		return errRefused
	}
	if d.after != nil {
		return d.after(c, what)
	}
	return nil
}

func (d *counter) Connect(context.Context) (*counted, error) {
	c := &counted{srv: d.srv}
	c.bound, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

func (d *counter) Key(name string) string { return name }
func (d *counter) Place() (string, any)   { return "", d }

func intent(l advisory.Lock) string { return "intent " + l.Key }

// mint returns a grant. The caller holds srv.mu.
func (d *counter) mint() advisory.Grant {
	d.srv.fence++
	return advisory.Grant{Granted: true, Fence: d.srv.fence}
}

// intended reports whether another session has the intent. The caller holds srv.mu.
func (d *counter) intended(c *counted, l advisory.Lock) bool {
	for o := range d.srv.locks[intent(l)] {
		if o != c {
			return true
		}
	}
	return false
}

func (d *counter) Try(c *counted, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	err = d.on(c, "try", func() {
		if !(r.Shared && d.intended(c, l)) && d.srv.grant(c, l.Key, r.Shared) {
			g = d.mint()
		}
	})
	return g, err
}

func (d *counter) Await(ctx context.Context, c *counted, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	for {
		var changed chan struct{}
		err := d.on(c, "await", func() {
			changed = d.srv.changed
			if !(r.Shared && d.intended(c, l)) && d.srv.grant(c, l.Key, r.Shared) {
				g = d.mint()
			}
		})
		if err != nil || g.Granted {
			return g, err
		}
		select {
		case <-changed:
		case <-c.bound.Done():
		case <-ctx.Done():
			return g, nil
		}
	}
}

func (d *counter) EndWait(_, _ *counted) error { return nil }

func (d *counter) Claim(c *counted) error { return d.on(c, "claim", func() {}) }

func (d *counter) Unlock(c *counted, l advisory.Lock, shared bool) (had bool, err error) {
	err = d.on(c, "unlock", func() { had = d.srv.unlock(c, l.Key, shared) })
	return had, err
}

func (d *counter) Verify(c *counted, l advisory.Lock) error {
	has := true
	err := d.on(c, "verify", func() { has = l == advisory.Lock{} || d.srv.locks[l.Key][c] != [2]int{} })
	if err == nil && !has {
		err = errors.New("the session did not have the lock")
		c.Lose(err)
	}
	return err
}

func (d *counter) RaiseFence(c *counted, _ advisory.Lock, _ driver.Holder, fence uint64) error {
	return d.on(c, "raise", func() { d.srv.fence = max(d.srv.fence, fence) })
}

func (d *counter) Settle(c, lost *counted, _ advisory.Lock) (gone bool, err error) {
	err = d.on(c, "settle", func() {
		if gone = !lost.left; !gone {
			lost.left = false
			lost.free()
		}
	})
	return gone, err
}

func (d *counter) Holders(c *counted, l advisory.Lock) (holds []driver.Hold, fence uint64, err error) {
	err = d.on(c, "holders", func() {
		if fence = d.srv.fence; len(d.srv.locks[l.Key]) > 0 {
			holds = []driver.Hold{{}}
		}
	})
	return holds, fence, err
}

func (d *counter) LooksFree(c *counted, l advisory.Lock, _ bool) (free bool, err error) {
	err = d.on(c, "free", func() { free = len(d.srv.locks[l.Key]) == 0 })
	return free, err
}

func (d *counter) Queued(c *counted, l advisory.Lock) (bool, error) {
	return false, d.on(c, "queued", func() {})
}

func (d *counter) Intend(c *counted, l advisory.Lock) (ok bool, err error) {
	conflict := false
	err = d.on(c, "intend", func() {
		ok = d.srv.grant(c, intent(l), false)
		conflict = !ok
	})
	if err == nil && conflict {
		err = driver.ErrPromotionConflict
	}
	return ok, err
}

func (d *counter) Withdraw(c *counted, l advisory.Lock) (had bool, err error) {
	err = d.on(c, "withdraw", func() { had = d.srv.unlock(c, intent(l), false) })
	return had, err
}

func (d *counter) Promote(c *counted, l advisory.Lock, r *driver.Request) (g advisory.Grant, err error) {
	ok := true
	err = d.on(c, "promote", func() {
		if d.srv.grant(c, l.Key, false) {
			g = d.mint()
			ok = d.srv.unlock(c, l.Key, true) && d.srv.unlock(c, intent(l), false)
		}
	})
	if err == nil && !ok {
		c.Lose(errors.New("the session did not have the shared lock"))
	}
	return g, err
}

func (d *counter) Demote(c *counted, l advisory.Lock) error {
	had := false
	err := d.on(c, "demote", func() { had = d.srv.grant(c, l.Key, true) && d.srv.unlock(c, l.Key, false) })
	if err == nil && !had {
		c.Lose(errors.New("the session did not have the lock"))
	}
	return err
}
