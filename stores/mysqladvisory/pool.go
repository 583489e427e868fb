package mysqladvisory

import (
	"context"
	"fmt"
	"sync"

	"github.com/padlock-go/padlock/driver"
)

const (
	holdConns = 4
	waitConns = 8
	allConns  = holdConns + waitConns + 1 // and one that removes old rows
)

// A pool holds the connections of a store.
type pool struct {
	dialer  dialer
	perConn int // how many holds a connection may have
	work    *sync.WaitGroup
	ctx     context.Context // canceled when the store is closed

	mu     sync.Mutex
	closed bool
	holds  [holdConns]slot
	waits  [waitConns]slot
	line   line
}

// A slot is a place for one connection. The connection is made when it is needed. pool.mu guards
// the fields.
type slot struct {
	c       *conn    // nil or dead if there is none
	dialing *dialing // nil unless a caller makes the connection
	// taken is true while a call of Wait uses the slot. If this call obtains a hold, the slot stays
	// taken until the hold ends.
	taken bool
}

// A dialing is a connection that one caller makes. All others that need it wait for the result.
type dialing struct {
	done chan struct{} // closed when c or err is set
	c    *conn
	err  error
}

// live returns the connections that are alive.
func (p *pool) live() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for _, slots := range [][]slot{p.holds[:], p.waits[:]} {
		for i := range slots {
			if c := slots[i].c; c != nil && c.alive() {
				out = append(out, c)
			}
		}
	}
	return out
}

// dial returns the connection of a slot, and makes it if there is none. It returns after at most
// connectLimit.
func (p *pool) dial(sl *slot) (*conn, error) {
	p.mu.Lock()
	c, d := sl.c, sl.dialing
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, driver.ErrClosed
	case c != nil && c.alive():
		p.mu.Unlock()
		return c, nil
	case d != nil:
		p.mu.Unlock()
		<-d.done
		return d.c, d.err
	}
	d = &dialing{done: make(chan struct{})}
	sl.dialing = d
	p.mu.Unlock()
	defer close(d.done)
	c, err := p.dialer.connect(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.dialing = nil
	if err == nil && p.closed {
		p.work.Go(c.closeConn)
		c, err = nil, driver.ErrClosed
	}
	d.c, d.err = c, err
	if err != nil {
		return nil, err
	}
	sl.c = c
	p.work.Go(c.watch)
	return c, nil
}

// reserve chooses a connection on which the caller then tries to take a lock. It prefers idle
// connections and makes a new one only if all others are busy. After the try, the caller must call
// finish.
func (p *pool) reserve() (*conn, error) {
	for {
		c, sl, err := p.choose()
		switch {
		case err != nil || c != nil && c.refresh():
			return c, err
		case c != nil:
			p.finish(c, false)
			continue
		}
		if _, err := p.dial(sl); err != nil {
			return nil, err
		}
	}
}

// choose returns a connection that exists. If a new connection should be made instead, choose
// returns the slot for it.
func (p *pool) choose() (*conn, *slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, driver.ErrClosed
	}
	var best *conn
	var empty *slot
	for i := range p.holds {
		c := p.holds[i].c
		switch {
		case c == nil || !c.alive():
			if empty == nil {
				empty = &p.holds[i]
			}
		case int(c.load.Load()) >= p.perConn:
		case best == nil || c.ops < best.ops:
			best = c
		}
	}
	switch {
	case best != nil && (best.ops == 0 || empty == nil):
	case empty != nil:
		return nil, empty, nil
	default:
		return nil, nil, fmt.Errorf("%w: the store has all the holds that it may have; see MaxHolds", driver.ErrUnavailable)
	}
	best.addLoad()
	best.ops++
	return best, nil, nil
}

// finish is called after the caller of reserve has tried to take the lock. gotLock is true if the
// session has the lock now.
func (p *pool) finish(c *conn, gotLock bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.ops--
	if !gotLock {
		c.load.Add(-1)
	}
}

// anyConn returns a connection for a statement that takes no lock.
func (p *pool) anyConn() (*conn, error) {
	for {
		p.mu.Lock()
		var best *conn
		for i := range p.holds {
			if c := p.holds[i].c; c != nil && c.alive() && (best == nil || c.ops < best.ops) {
				best = c
			}
		}
		p.mu.Unlock()
		switch {
		case best == nil:
			return p.dial(&p.holds[0])
		case best.refresh():
			return best, nil
		}
	}
}

// waiter returns a free slot for a call of Wait that wants to reserve its lock. If no slot is free,
// or if the call does not want to reserve the lock, the call gets a place in the line.
func (p *pool) waiter(key string, reserve bool) (*slot, *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free *slot
	for i := range p.waits {
		sl := &p.waits[i]
		if !sl.taken && (free == nil || free.c == nil) {
			free = sl
			if sl.c != nil && sl.c.alive() {
				break
			}
		}
	}
	if free == nil || !reserve {
		return nil, p.line.join(key, reserve)
	}
	free.taken = true
	return free, nil
}

// giveBack frees a slot that a wait has used.
func (p *pool) giveBack(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.taken = p.line.give(sl)
}

// leaveLine removes w from the line. If w was given a slot meanwhile, the slot goes to the next
// waiter.
func (p *pool) leaveLine(w *waiter) {
	p.mu.Lock()
	p.line.remove(w)
	p.mu.Unlock()
	select {
	case sl := <-w.place:
		p.giveBack(sl)
	default:
	}
}

// wake wakes the waiters for a lock that this process has released.
func (p *pool) wake(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.wake(key)
}

func (p *pool) countAhead(w *waiter) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.countAhead(w)
}

// closeAll ends all connections. For each connection, a goroutine runs the method watch, which then
// closes the connection.
func (p *pool) closeAll() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, c := range p.live() {
		c.shutDown()
	}
}
