package etcdstore

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A hold is what this store remembers about a token that holds a name.
type hold struct {
	name, id string
	key      string
	reader   bool
	// recalled is true if another store or an earlier process obtained the hold. This store then
	// may not know all places in the queue that belong to the hold.
	recalled bool
	// ownPlace is the place in the queue in which the caller waited. The hold keeps this place. If
	// the caller did not wait, ownPlace is zero.
	ownPlace keyVersion

	modified atomic.Int64 // the revision of the last write of the key
	// strange is true if another store may have moved or extended the hold. The hold may then end
	// later than this store knows.
	strange atomic.Bool

	mu       sync.Mutex
	fence    uint64
	since    driver.Instant // when the hold was granted
	end      driver.Instant // the server keeps the key at least until then; 0 is unknown
	extended driver.Instant // when Extend was last called
	seen     driver.Instant // when the key was last known to exist
	renewed  driver.Instant // when the last renewal of its lease was sent
	group    *group
}

// A keyVersion is a key and the revision of its last write. The zero value stands for no key.
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
	afterSweep int // number of holds after the last sweep
}

func newHolds(clock driver.Clock) *holds {
	return &holds{clock: clock, all: make(map[holdKey]*hold)}
}

func (h *holds) find(name, id string) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[holdKey{name, id}]
}

// remember adds a hold. It replaces an earlier hold of the same name and token.
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
}

// take removes a hold and returns it. It returns nil if the hold is not remembered.
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

// rememberFor is how long the store remembers a hold that has ended, so that Extend and Release can
// report why it ended.
const rememberFor = 10 * time.Minute

// sweep forgets the holds that ended more than rememberFor ago without a Release.
func (h *holds) sweep() {
	now := h.clock.Now()
	for key, n := range h.all {
		n.mu.Lock()
		over := n.end != 0 && now.Sub(n.end) > rememberFor
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
	n.mu.Lock()
	g := n.group
	n.group = nil
	n.mu.Unlock()
	if g != nil {
		g.remove(n)
	}
}

// withFence returns the holds that have the given name and fence. Several readers may have the same
// fence.
func (h *holds) withFence(name string, fence uint64) (all []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.all {
		if n.name == name && n.fencing() == fence {
			all = append(all, n)
		}
	}
	return all
}

func (n *hold) fencing() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fence
}

// isValue reports whether the hold's key still belongs to the hold. value is the value of the key.
func (n *hold) isValue(value string) bool {
	return strings.HasPrefix(value, identity(n.fencing(), n.id))
}

// wroteAt records that the hold's key was written at a revision.
func (n *hold) wroteAt(revision int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.modified.Store(max(n.modified.Load(), revision))
}

// setLease records that the hold's key has the lease l.
func (n *hold) setLease(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end, n.seen, n.renewed = max(n.end, l.end), max(n.seen, l.from), max(n.renewed, l.from)
}

func (n *hold) endsAt() driver.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.end
}

// mayEndAt returns the latest time at which the hold ends, as far as the store knows. The server
// tells how long a lease lasts in whole seconds, rounded down.
func (n *hold) mayEndAt() driver.Instant {
	if n.strange.Load() {
		return n.endsAt().Add(time.Second)
	}
	return n.endsAt()
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
