package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A process that has just handed a name over to another process, and wants the name again, usually
// has to wait. So it joins the queue at once, without trying to take the lock first. This saves one
// of three requests for each lock. If the name is free after all, the script that joins the queue
// (join.lua) takes it.
//
// For this purpose, each Store remembers the names that its releases have handed over to other
// processes. JoinFirst returns true for these names, and false for all other names.
//
// The Store forgets a name after 1 s (memoryOfHandOver), or when join.lua finds the name free. If
// the Store has 4,096 names (mostHandOvers), it forgets all of them before it adds another one.
//
// JoinFirst returns false for every name in these cases:
//
//   - A connection was made or lost, and the servers have not been checked since. The caller then
//     tries to take the lock, and the try fails at once if the server cannot be reached.
//   - The store has the option Foreign or Replicas. Its releases do not hand names over.
//   - The store has both PlainStrings and NoFences. Then join.lua cannot take a free name.

const (
	memoryOfHandOver = time.Second
	mostHandOvers    = 1 << 12
)

// handOvers has the names that were handed over; see the table above.
type handOvers struct {
	last atomic.Int64 // when a name was last added, or 0
	mu   sync.Mutex
	m    map[string]driver.Instant // when each name was handed over
}

// JoinFirst implements driver.Waiter.
func (s *Store) JoinFirst(name string) bool {
	last := s.handOvers.last.Load()
	if last == 0 || !s.checks.valid.Load() || !s.joinGrants() {
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

// recent reports whether the name is remembered; see the table above.
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
