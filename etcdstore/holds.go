package etcdstore

import (
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// hold is what this store remembers of a hold that it was granted.
type hold struct {
	name, id string
	key      string
	reader   bool
	recalled bool            // another store or process was granted it, so it may have more keys
	own      keyVersion      // the hold's place in the queue, or zero
	told     keyVersion      // the key that told that the name was passed on to this hold, or zero
	next     string          // the waiters behind the hold, when it was granted
	brief    *driver.Request // the request, until a hold that was passed on has its full lease
	stop     func() bool     // stops the timer of such a hold

	mu       sync.Mutex
	fence    uint64
	modified int64          // the revision of the last write of the key
	since    driver.Instant // when the hold was granted
	end      driver.Instant // the server keeps the key at least until then; 0 is unknown
	extended driver.Instant // when Extend was last called
	seen     driver.Instant // when the key was last known to be there
	renewed  driver.Instant // when the last renewal of its lease was sent
	group    *group
	gone     bool // the key is not there any more
}

// A keyVersion is a key as its last write left it. The zero value is no key.
type keyVersion struct {
	key      string
	modified int64
}

type holdKey struct{ name, id string }

// holds remembers the holds of one store.
type holds struct {
	clock      driver.Clock
	mu         sync.Mutex
	all        map[holdKey]*hold
	afterSweep int             // number of holds after the last sweep
	names      map[string]bool // some names that had a hold before, and so have a fence
}

func newHolds(clock driver.Clock) *holds {
	return &holds{clock: clock, all: make(map[holdKey]*hold), names: make(map[string]bool)}
}

// maxNames is the greatest number of names in the map names of holds.
const maxNames = 4096

// wasHeld reports whether the store remembers that the name had a hold.
func (h *holds) wasHeld(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[name]
}

func (h *holds) find(name, id string) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[holdKey{name, id}]
}

// remember remembers a hold, and forgets an earlier hold with the same token.
func (h *holds) remember(n *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) > 2*h.afterSweep+64 {
		h.sweep()
	}
	if old := h.all[holdKey{n.name, n.id}]; old != nil {
		old.leaveGroup()
	}
	h.all[holdKey{n.name, n.id}] = n
	if len(h.names) >= maxNames {
		clear(h.names)
	}
	h.names[n.name] = true
}

// take forgets a hold and returns it.
func (h *holds) take(name, id string) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.all[holdKey{name, id}]
	if n != nil {
		delete(h.all, holdKey{name, id})
		n.leaveGroup()
	}
	return n
}

// remembered is how long a hold is remembered after its end, so that Extend and Release can say why
// it ended.
const remembered = 10 * time.Minute

// sweep forgets the holds that ended long ago without a Release.
func (h *holds) sweep() {
	now := h.clock.Now()
	for key, n := range h.all {
		n.mu.Lock()
		over := n.end != 0 && now.Sub(n.end) > remembered
		n.mu.Unlock()
		if over {
			delete(h.all, key)
			n.leaveGroup()
		}
	}
	h.afterSweep = len(h.all)
}

// leaveGroup takes the hold out of its group.
func (n *hold) leaveGroup() {
	if n.stop != nil {
		n.stop()
	}
	n.mu.Lock()
	g := n.group
	n.group = nil
	n.mu.Unlock()
	if g != nil {
		g.remove(n)
	}
}

// byFence returns the hold that has the given name and fence. If several readers have this fence,
// it returns one of them.
func (h *holds) byFence(name string, fence uint64) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.all {
		if n.name == name && n.fencing() == fence {
			return n
		}
	}
	return nil
}

func (n *hold) fencing() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fence
}

// lastWrite returns the revision of the last write of the key.
func (n *hold) lastWrite() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.modified
}

// isValue reports whether value is the value of the hold's key.
func (n *hold) isValue(value string) bool {
	return strings.HasPrefix(value, identity(n.fencing(), n.id))
}

// wroteAt records the revision of the last write of the key.
func (n *hold) wroteAt(revision int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.modified = max(n.modified, revision)
}

// setLease records that the key has the lease l.
func (n *hold) setLease(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end, n.seen, n.renewed = max(n.end, l.endTime()), max(n.seen, l.from), max(n.renewed, l.from)
}

func (n *hold) endsAt() driver.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.end
}

// noteExtend records the time of an Extend, and returns the group of the hold.
func (n *hold) noteExtend(now driver.Instant) *group {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.extended = now
	return n.group
}

func (g *group) remove(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, h)
}
