package advisory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	holdConns = 4
	waitConns = 8
	// MaxConns is how many connections a store may have: 4 for holds, 8 for waiters, and one that
	// removes old rows.
	MaxConns = holdConns + waitConns + 1
)

// A conn is a connection in the pool. pool.mu guards its fields.
type conn[C Session] struct {
	s C
	// keys has an entry for each lock that the session has or asks for. The value is the number of
	// holds of that lock in the session, plus the number of requests for it that are running.
	keys map[string]int
	// sole contains the locks that the session has exclusively, or asks for exclusively.
	sole map[string]bool
	ops  int // operations that are running
}

func (c *conn[C]) alive() bool { return alive(c.s) }

// A pool holds the connections of a store.
type pool[C Session] struct {
	connect func(ctx context.Context) (C, error)
	work    *sync.WaitGroup
	ctx     context.Context // canceled when the store is closed

	mu     sync.Mutex
	closed bool
	holds  [holdConns]poolEntry[C]
	waits  [waitConns]poolEntry[C]

	idle    chan struct{}  // closed when a session for holds has no operation any more; nil if nobody wants to know
	seats   chan struct{}  // has a value for each entry of waits that is taken
	left    time.Time      // when a waiter last left its entry to others; guarded by mu
	seeking atomic.Int32   // how many calls of Wait have no entry
	blocked sync.WaitGroup // the statements that wait for a lock
}

// A poolEntry is room for one connection. The connection is made when it is needed. pool.mu guards
// the fields.
type poolEntry[C Session] struct {
	c       *conn[C]    // nil or dead if there is none
	dialing *dialing[C] // nil unless the connection is being made
	// taken is true while a call of Wait uses the entry. If this call obtains a hold, the entry
	// stays taken until the hold ends.
	taken bool
}

// A dialing is a connection that is being made. All callers that need it wait for the result.
type dialing[C Session] struct {
	done chan struct{} // closed when c or err is set
	c    *conn[C]
	err  error
}

// An awaited is what a caller waits for if all connections are busy.
type awaited[C Session] struct {
	*dialing[C]
	idle chan struct{}
}

// live returns the connections that are alive.
func (p *pool[C]) live() []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []C
	for _, entries := range [][]poolEntry[C]{p.holds[:], p.waits[:]} {
		for i := range entries {
			if c := entries[i].c; c != nil && c.alive() {
				out = append(out, c.s)
			}
		}
	}
	return out
}

// dial returns the connection of an entry, and makes it if there is none. The method connect of the
// store limits how long that takes.
func (p *pool[C]) dial(sl *poolEntry[C]) (*conn[C], error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, driver.ErrClosed
	}
	if c := sl.c; c != nil && c.alive() {
		p.mu.Unlock()
		return c, nil
	}
	d := p.begin(sl)
	p.mu.Unlock()
	<-d.done
	return d.c, d.err
}

// begin begins to make the connection of an entry, unless that is under way. The caller holds mu,
// and the pool is not closed.
func (p *pool[C]) begin(sl *poolEntry[C]) *dialing[C] {
	if sl.dialing == nil {
		d := &dialing[C]{done: make(chan struct{})}
		sl.dialing = d
		p.work.Go(func() {
			d.c, d.err = p.fill(sl)
			close(d.done)
		})
	}
	return sl.dialing
}

// fill makes the connection of an entry.
func (p *pool[C]) fill(sl *poolEntry[C]) (*conn[C], error) {
	s, err := p.connect(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.dialing = nil
	switch {
	case p.closed:
		if err == nil {
			p.work.Go(s.Close)
		}
		return nil, driver.ErrClosed
	case err != nil:
		return nil, err
	}
	sl.c = &conn[C]{s: s, keys: map[string]int{}, sole: map[string]bool{}}
	p.work.Go(s.Watch)
	return sl.c, nil
}

// reserve chooses a connection for a request. It looks for a connection whose session does not have
// the lock yet. To keep the connections few, it prefers an idle connection, and makes a new one
// only if all others are busy. Then it takes what comes first: the new one, or another that becomes
// idle. If every session has the lock, a reader may use the session of another reader. joinsReader
// is true in that case. After the try, the caller must call finish.
func (p *pool[C]) reserve(key string, shared bool) (c *conn[C], joinsReader bool, err error) {
	for {
		c, d, joined, err := p.choose(key, shared)
		if err != nil || c != nil {
			return c, joined, err
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, false, d.err
			}
		case <-d.idle:
		}
	}
}

// choose returns an existing connection, or one that is being made.
func (p *pool[C]) choose(key string, shared bool) (*conn[C], *awaited[C], bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, false, driver.ErrClosed
	}
	var best, join *conn[C]
	var empty *poolEntry[C]
	for i := range p.holds {
		c := p.holds[i].c
		switch {
		case c == nil || !c.alive():
			if empty == nil {
				empty = &p.holds[i]
			}
		case c.keys[key] > 0:
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
		if p.idle == nil {
			p.idle = make(chan struct{})
		}
		return nil, &awaited[C]{p.begin(empty), p.idle}, false, nil
	case shared && join != nil:
		join.add(key, false)
		return join, nil, true, nil
	default: // other callers of this process have the lock or ask for it, in all sessions
		return nil, nil, false, &driver.HeldError{Waiters: -1}
	}
	best.add(key, !shared)
	return best, nil, false, nil
}

// add records that the session has the lock or asks for it. If exclusive is true, nobody may ask
// for the lock in this session again until the hold ends. The server would grant the lock twice.
func (c *conn[C]) add(key string, exclusive bool) {
	c.keys[key]++
	if exclusive {
		c.sole[key] = true
	}
	c.ops++
}

// finish ends the operation that reserve began. If the session has not got the lock, the caller
// also calls drop.
func (p *pool[C]) finish(c *conn[C]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.ops--; c.ops == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// handOver records that the session of a waiter has got the lock.
func (p *pool[C]) handOver(c *conn[C], key string, exclusive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.add(key, exclusive)
	c.ops--
}

// drop removes one hold or request of a lock from the counts of a session.
func (p *pool[C]) drop(c *conn[C], key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.keys[key]--; c.keys[key] == 0 {
		delete(c.keys, key)
		delete(c.sole, key)
	}
}

// seal marks the lock of a session as exclusive, so that no other reader joins. It returns false if
// the session has other holds of the lock, or requests for it.
func (p *pool[C]) seal(c *conn[C], key string) bool {
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
func (p *pool[C]) demote(c *conn[C], key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(c.sole, key)
}

// anyConn returns a connection for a statement that takes no lock.
func (p *pool[C]) anyConn() (C, error) {
	p.mu.Lock()
	var best *conn[C]
	for i := range p.holds {
		if c := p.holds[i].c; c != nil && c.alive() && (best == nil || c.ops < best.ops) {
			best = c
		}
	}
	p.mu.Unlock()
	if best != nil {
		return best.s, nil
	}
	made, err := p.dial(&p.holds[0])
	if err != nil {
		var none C
		return none, err
	}
	return made.s, nil
}

// seat returns a free entry for a call of Wait that has put a value into seats. It prefers an entry
// with a connection.
func (p *pool[C]) seat() *poolEntry[C] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var free *poolEntry[C]
	for i := range p.waits {
		if sl := &p.waits[i]; !sl.taken && (free == nil || sl.c != nil && sl.c.alive()) {
			free = sl
		}
	}
	free.taken = true
	return free
}

// whenSought calls f when the turn of a waiter is over and others seek an entry, but for one waiter
// at a time. It stops when ctx ends.
func (p *pool[C]) whenSought(ctx context.Context, turn time.Duration, f func()) {
	time.AfterFunc(turn, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case p.seeking.Load() > 0 && time.Since(p.left) >= leaveEvery:
			p.left = time.Now()
			f()
		default:
			p.whenSought(ctx, leaveEvery, f)
		}
	})
}

// giveBack frees an entry that a wait has used.
func (p *pool[C]) giveBack(sl *poolEntry[C]) {
	p.mu.Lock()
	sl.taken = false
	p.mu.Unlock()
	<-p.seats
}

// beginWait is called before a statement that waits for a lock, and blocked.Done after it. It
// returns false if the pool is closed.
func (p *pool[C]) beginWait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.blocked.Add(1)
	}
	return !p.closed
}

// closeAll ends all connections, as soon as no statement waits for a lock.
func (p *pool[C]) closeAll() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.blocked.Wait()
	var all sync.WaitGroup
	for _, c := range p.live() {
		all.Go(c.Close)
	}
	all.Wait()
}
