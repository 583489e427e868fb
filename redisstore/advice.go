package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has just handed a name over to another process, and wants the name again, joins
// the queue without trying to take the lock first. This saves one of three requests for each lock.
// If the name is free after all, the script that joins the queue (join.lua) grants it. These are
// the states of a name in a Store:
//
//	state   when a name enters it                    JoinFirst  it leaves the state
//	unseen  at first, and when it leaves the other   false      when a release hands the name over to a
//	        state                                               waiter of another process
//	handed  a release has handed the name over to a  true       when memoryOfHandOver is over; when
//	        waiter of another process                           join.lua has found the name free; when
//	                                                            mostHandOvers names are in this state
//
// While the gate is closed, JoinFirst returns false for every name. The caller then tries to take
// the lock, and that try fails at once if the server cannot be reached. With the option Foreign or
// Replicas, no name enters the state "handed", because pass.lua does not run. With PlainStrings and
// NoFences together, join.lua cannot grant a name, so JoinFirst always returns false.

const (
	memoryOfHandOver = time.Second
	mostHandOvers    = 1 << 12
)

// handOvers has the names that are in the state "handed"; see the table above.
type handOvers struct {
	last atomic.Int64 // when a name was last added, or 0
	mu   sync.Mutex
	m    map[string]driver.Instant // when each name was handed over
}

var _ driver.QueueAdviser = (*Store)(nil)

// JoinFirst implements driver.QueueAdviser.
func (s *Store) JoinFirst(name string) bool {
	last := s.handOvers.last.Load()
	if last == 0 || !s.gate.open.Load() || !s.joinGrants() {
		return false
	}
	now := s.clock.Now()
	return now.Sub(driver.Instant(last)) < memoryOfHandOver && s.handOvers.recent(name, now)
}

// joinGrants reports whether join.lua can grant a name that is free.
func (s *Store) joinGrants() bool { return s.config.fences || !s.config.strings }

func (h *handOvers) add(name string, now driver.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil || len(h.m) >= mostHandOvers {
		h.m = map[string]driver.Instant{}
	}
	h.m[name] = now
	h.last.Store(int64(now))
}

// recent reports whether the name is in the state "handed".
func (h *handOvers) recent(name string, now driver.Instant) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.m[name]
	if ok && now.Sub(at) >= memoryOfHandOver {
		delete(h.m, name)
		ok = false
	}
	return ok
}

func (h *handOvers) remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.m, name)
}
