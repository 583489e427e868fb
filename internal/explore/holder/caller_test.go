package holder

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
)

// A caller calls the methods of one Locker, one at a time.
type caller struct {
	w          *world
	who        int
	name       string
	job        string // the name of its locks
	locker     *padlock.Locker
	clock      *clock
	face       face
	acquires   int
	asks       int
	call       string // the call under way, or ""
	once       bool   // that is a TryAcquire
	firstToken int    // the number of the first token of that call
	begun      time.Duration
	cancel     context.CancelFunc
	cancelled  bool
	lock       *leased
	token      string // of lock
	ctx        context.Context
	over       bool          // the lock ended before its Release
	overAtCall bool          // and before the Check or Extend under way
	most       time.Duration // when HoldAtMost ends the lock, if it does
	keptUntil  time.Duration // when the time of HoldAtLeast is over
	events     *events
	acquired   chan acquired
	released   chan error
	asked      chan error // the result of Check or Extend

	answers   chan question   // the result of Ask
	questions <-chan struct{} // of Asked

	panicked error

	unsure bool // an earlier call with the same token has an unknown outcome

	got, refused, lost, releases uint64
	exported                     bool
	closing                      bool
	closed                       chan error
}

type acquired struct {
	lock *padlock.Lock
	err  error
}

// tasks are the names of locks. The second one is for two callers of one Locker.
var tasks = []string{"job", "task"}

func (c *caller) take(once bool) {
	ctx, cancel := context.WithCancel(context.Background())
	c.call, c.once, c.cancel, c.cancelled, c.begun = callAcquire, once, cancel, false, c.w.at()
	c.acquires++
	c.firstToken = 1
	for _, f := range c.w.facts {
		if f.who == c.who {
			c.firstToken++
		}
	}
	c.start(func() {
		method := c.locker.Acquire
		if once {
			method = c.locker.TryAcquire
		}
		lock, err := method(ctx, c.job, c.w.space.options(c.name)...)
		c.acquired <- acquired{lock, err}
	})
}

func (c *caller) release() {
	c.call, c.begun = opRelease, c.w.at()
	c.w.facts[c.token].leaving = true
	c.start(func() { c.released <- c.lock.Release() })
}

// ask calls a method of the lock.
func (c *caller) ask(call string) {
	ctx, cancel := context.WithCancel(context.Background())
	c.call, c.overAtCall, c.cancel, c.cancelled = call, c.over, cancel, false
	clear(c.w.facts[c.token].asked)
	c.w.facts[c.token].demoting = 0
	c.asks++
	c.start(func() {
		switch call {
		case callCheck:
			c.asked <- c.lock.Check(ctx)
		case callExtend:
			c.asked <- c.lock.Extend(ctx, 2*ttl)
		case callPromote:
			c.asked <- c.lock.Promote(ctx)
		case callDemote:
			c.asked <- c.lock.Demote(ctx)
		}
	})
}

// export calls Export. The store has no id, so nothing is sent. Nobody adopts the lock.
func (c *caller) export() {
	c.exported = true
	if _, err := c.lock.Export(context.Background()); err != nil && !c.over {
		c.w.breaks(fmt.Errorf("Export returns %w", err))
	}
}

func (c *caller) close() {
	c.closing = true
	c.start(func() { c.closed <- c.locker.Close(context.Background()) })
}

// start begins a call of c.
func (c *caller) start(call func()) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				c.w.mu.Lock()
				defer c.w.mu.Unlock()
				c.panicked = fmt.Errorf("%s's call panics: %v", c.name, p)
			}
		}()
		call()
	}()
}

// collect takes the results of the calls that have returned, and judges them.
func (c *caller) collect() error {
	select {
	case a := <-c.acquired:
		c.call = ""
		c.cancel()
		if a.err == nil {
			c.holds(a.lock)
		} else {
			c.refused++
		}
		return c.judgeAcquire(c.lock, a.err)
	case err := <-c.released:
		c.call = ""
		c.releases++
		broken := c.judgeRelease(err)
		c.lock = nil
		return broken
	case err := <-c.asked:
		broken := c.judgeAsk(err)
		c.call = ""
		c.cancel()
		return broken
	case q := <-c.answers:
		broken := c.judgeAnswer(q)
		c.call = ""
		return broken
	default:
		return nil
	}
}

// holds notes that c has got a lock.
func (c *caller) holds(lock *padlock.Lock) {
	s := c.w.space
	c.lock, c.over, c.exported, c.most, c.ctx = leasedOf(lock), false, false, 0, nil
	c.token = token(c.lock.hold)
	c.got++
	if !s.unasked {
		c.ctx = lock.Context()
	}
	if s.askers > 0 {
		c.w.asks[c.who] = asks{looked: c.w.at()}
		c.questions = padlock.Asked(c.ctx)
	}
	if s.most > 0 {
		c.most = c.w.at() + s.most
	}
	if s.atLeast > 0 {
		c.keptUntil = c.w.facts[c.token].confirmed + s.atLeast
	}
}
