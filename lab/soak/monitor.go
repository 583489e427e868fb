package soak

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// Monitor keeps the history, and the data that the locks protect. It is safe for concurrent use.
type Monitor struct {
	mu     sync.Mutex
	things map[string]*thing
	events []Event
	keys   []Key
	atRest int
	grants int
	faults int
	atWork map[int]int   // by worker: Event.Life of the latest process that has begun to work
	served map[int]int64 // by worker: when it asked for the latest lock that it got

	ended, rests atomic.Bool // the work is over; the workers rest, see Run.rest
}

// thing is the data that the lock on one name protects.
type thing struct {
	seen           uint64 // the greatest fence that the monitor has seen
	fenced, plain  int    // two registers; a worker reads a register, adds one, and writes the result
	fencedWrites   int    // number of accepted writes
	plainWrites    int
	fencedRejected int
}

// Key is the key of a hold that any worker may adopt.
type Key struct {
	Text string
	Hold int64
}

// Value is the result of a read under a lock.
type Value struct {
	Fenced, Plain int
	Stale         bool // the monitor had already seen a greater fence
}

// Write is a write under a lock.
type Write struct {
	Name   string
	Fence  uint64
	Value  Value // the value that the writer read
	Until  int64 // the writer believes that it may rely on the lock until this time
	Paused bool  // the writer paused on purpose between its last look at the clock and the write
	Worker int
	Hold   int64
}

// monitorAPI is the Monitor as a worker sees it. The Monitor may be in the worker's own process or
// in another one.
type monitorAPI interface {
	Log(Event)
	Read(name string, fence uint64) Value
	Write(Write)
	Offer(Key)
	Take() (Key, bool)
	Over() bool    // reports whether the work is over
	Resting() bool // reports whether workers rest after the work
}

// A holder may send a write just before its own deadline, and the write may arrive after the
// deadline. lateness is the greatest delay that is allowed.
const lateness = 50 * time.Millisecond

// NewMonitor returns an empty monitor.
func NewMonitor() *Monitor {
	return &Monitor{things: map[string]*thing{}, atWork: map[int]int{}, served: map[int]int64{}}
}

// Log adds an event to the history.
func (c *Monitor) Log(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	switch e.Op {
	case Acquired, Adopted:
		c.grants++
		c.served[e.Worker] = max(c.served[e.Worker], e.Call)
	case Faulted:
		c.faults++
	case Started:
		c.atWork[e.Worker] = e.Life
	case Resting:
		c.atRest++
	}
}

// hasBegun reports whether a worker's process has begun to work. The argument life is the number of
// the process; see Event.Life.
func (c *Monitor) hasBegun(worker, life int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := c.atWork[worker]
	return known && now == life
}

// sums returns the numbers of grants and faults so far.
func (c *Monitor) sums() (grants, faults int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grants, c.faults
}

// dataOf returns the data of a name. The caller holds c.mu.
func (c *Monitor) dataOf(name string) *thing {
	t := c.things[name]
	if t == nil {
		t = &thing{}
		c.things[name] = t
	}
	return t
}

// Read returns both registers of a name and remembers the fence, like a resource that checks
// fences.
func (c *Monitor) Read(name string, fence uint64) Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.dataOf(name)
	if fence < t.seen {
		return Value{t.fenced, t.plain, true}
	}
	t.seen = fence
	return Value{t.fenced, t.plain, false}
}

// Write is a holder's write to both registers of a name. The new value of a register is the value
// that the holder read before, plus one. The plain register accepts every write. The fenced
// register accepts a write only if the monitor has seen no greater fence.
func (c *Monitor) Write(w Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := clockNow()
	t := c.dataOf(w.Name)
	t.plain = w.Value.Plain + 1
	t.plainWrites++
	if over := at - w.Until; over > int64(lateness) && !w.Paused {
		c.broken(w, at, fmt.Sprintf("I5 a write came %v after the holder's own deadline", time.Duration(over)))
	}
	switch {
	case w.Fence == 0:
	case w.Fence < t.seen || w.Value.Stale:
		t.fencedRejected++
		if at < w.Until {
			c.broken(w, at, fmt.Sprintf("I3 a holder inside its window was rejected: %v", safety.FenceKeeps(w.Fence, t.seen)))
		}
	default:
		t.seen = w.Fence
		t.fenced = w.Value.Fenced + 1
		t.fencedWrites++
	}
}

// broken logs a violation. The caller holds c.mu.
func (c *Monitor) broken(w Write, at int64, what string) {
	c.events = append(c.events, Event{Op: Broken, Worker: w.Worker, Call: w.Until, At: at, Name: w.Name, Hold: w.Hold, Fence: w.Fence, Err: what})
}

// Offer stores a key for any worker.
func (c *Monitor) Offer(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, k)
}

// Take removes the oldest key and returns it.
func (c *Monitor) Take() (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) == 0 {
		return Key{}, false
	}
	k := c.keys[0]
	c.keys = c.keys[1:]
	return k, true
}

// Over reports whether the workers should end their work.
func (c *Monitor) Over() bool { return c.ended.Load() || c.rests.Load() }

// Resting reports whether the workers should rest.
func (c *Monitor) Resting() bool { return c.rests.Load() }

// resting returns how many workers rest.
func (c *Monitor) resting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atRest
}

// stallTime returns how much time the engine's process has lost since the given time, because the
// system did not run it.
func (c *Monitor) stallTime(since int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var own spells
	for i := len(c.events) - 1; i >= 0 && c.events[i].At >= since; i-- {
		if e := &c.events[i]; e.Op == Stalled && e.Worker == engine {
			own = append(own, [2]int64{e.Call, e.At})
		}
	}
	return own.merged().timeBetween(since, clockNow())
}

// harm counts the damage to the registers.
type harm struct {
	LostPlain      int // lost updates of the plain register
	LostFenced     int
	FencedRejected int
	Writes         int
}

func (c *Monitor) harm() harm {
	c.mu.Lock()
	defer c.mu.Unlock()
	var h harm
	for _, t := range c.things {
		h.LostPlain += t.plainWrites - t.plain
		h.LostFenced += t.fencedWrites - t.fenced
		h.FencedRejected += t.fencedRejected
		h.Writes += t.plainWrites
	}
	return h
}

// history returns all events so far.
func (c *Monitor) history() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Event(nil), c.events...)
}
