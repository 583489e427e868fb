package pgadvisory

import (
	"context"
	"fmt"
	"sync"

	"github.com/padlock-go/padlock/driver"
)

const (
	holdConns = 4
	waitConns = 8
)

// A pool holds the connections of a store.
type pool struct {
	dialer  dialer
	perConn int // the maximum number of holds on one connection
	work    *sync.WaitGroup
	ctx     context.Context // canceled when the store is closed

	mu     sync.Mutex
	closed bool
	holds  [holdConns]slot
	waits  [waitConns]slot
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
	c.nudge()
	return c, nil
}

// reserve chooses a connection for a request. It looks for a connection whose session does not have
// the lock yet. To keep the connections few, it prefers an idle connection, and makes a new one
// only if all others are busy. If every session has the lock, a reader may use the session of
// another reader. joinsReader is true in that case.
func (p *pool) reserve(key int64, shared bool) (c *conn, joinsReader bool, err error) {
	for {
		c, sl, joined, err := p.choose(key, shared)
		if err != nil || c != nil {
			return c, joined, err
		}
		if _, err := p.dial(sl); err != nil {
			return nil, false, err
		}
	}
}

// choose returns an existing connection, or a free slot in which to make a new one.
func (p *pool) choose(key int64, shared bool) (*conn, *slot, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, false, driver.ErrClosed
	}
	var best, join *conn
	var empty *slot
	busy := false // other callers of this process have the lock or ask for it
	for i := range p.holds {
		c := p.holds[i].c
		switch {
		case c == nil || !c.alive():
			if empty == nil {
				empty = &p.holds[i]
			}
		case c.load >= p.perConn:
		case c.keys[key] > 0:
			busy = true
			if !c.sole[key] && (join == nil || c.keys[key] < join.keys[key]) {
				join = c
			}
		case best == nil || c.ops < best.ops:
			best = c
		}
	}
	switch {
	case best != nil && (best.ops == 0 || empty == nil):
	case empty != nil:
		return nil, empty, false, nil
	case shared && join != nil:
		join.add(key, false)
		return join, nil, true, nil
	case busy:
		return nil, nil, false, &driver.HeldError{Waiters: -1}
	default:
		return nil, nil, false, fmt.Errorf("%w: the store has all the holds that it may have; see MaxHolds", driver.ErrUnavailable)
	}
	best.add(key, !shared)
	return best, nil, false, nil
}

// add records that the session has the lock or asks for it. If exclusive is true, nobody may ask
// for the lock in this session again until the hold ends. The server would grant the lock twice.
func (c *conn) add(key int64, exclusive bool) {
	c.keys[key]++
	if exclusive {
		c.sole[key] = true
	}
	c.load++
	c.ops++
}

// finish ends the operation that reserve began. gotLock says whether the session has got the lock.
func (p *pool) finish(c *conn, key int64, gotLock bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.ops--
	if !gotLock {
		c.remove(key)
	}
}

// drop removes one hold of a lock from the counts of a session.
func (p *pool) drop(c *conn, key int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.remove(key)
}

func (c *conn) remove(key int64) {
	c.load--
	if c.keys[key]--; c.keys[key] == 0 {
		delete(c.keys, key)
		delete(c.sole, key)
	}
}

// promote marks the lock of a session as exclusive, so that no other reader joins. It returns false
// if the session has other readers of the lock.
func (p *pool) promote(c *conn, key int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.keys[key] != 1 {
		return false
	}
	c.sole[key] = true
	return true
}

// demote records that the session now has the lock as a reader. Other readers may then join the
// session again.
func (p *pool) demote(c *conn, key int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(c.sole, key)
}

// anyConn returns a connection for a statement that takes no lock.
func (p *pool) anyConn() (*conn, error) {
	p.mu.Lock()
	var best *conn
	for i := range p.holds {
		if c := p.holds[i].c; c != nil && c.alive() && (best == nil || c.ops < best.ops) {
			best = c
		}
	}
	p.mu.Unlock()
	if best != nil {
		return best, nil
	}
	return p.dial(&p.holds[0])
}

// waiter returns a free slot for a wait, or nil if there is none.
func (p *pool) waiter() *slot {
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
	if free != nil {
		free.taken = true
	}
	return free
}

// giveBack frees a slot that a wait has used.
func (p *pool) giveBack(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.taken = false
}

// closeAll ends all connections.
func (p *pool) closeAll() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range p.live() {
		wg.Go(c.closeConn)
	}
	wg.Wait()
}
