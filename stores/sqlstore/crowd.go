package sqlstore

import (
	"maps"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// recentNames remembers names for some time.
type recentNames struct {
	clock driver.Clock
	mu    sync.Mutex
	until map[string]driver.Instant
}

// maxRecent is the maximum number of names that are remembered.
const maxRecent = 1024

// note remembers a name for the given time.
func (n *recentNames) note(name string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until == nil {
		n.until = map[string]driver.Instant{}
	}
	now := n.clock.Now()
	if len(n.until) >= maxRecent {
		maps.DeleteFunc(n.until, func(_ string, t driver.Instant) bool { return t < now })
	}
	if len(n.until) < maxRecent {
		n.until[name] = now.Add(d)
	}
}

func (n *recentNames) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.until, name)
}

// isRecent reports whether a name is remembered.
func (n *recentNames) isRecent(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, ok := n.until[name]
	return ok && n.clock.Now() < t
}

// A crowd remembers the names that more than one process asks for. The store has shortcuts that try
// to do everything in a single statement. They work only for a free name, or for a hold without
// waiters. For the names in the crowd they would usually fail and only cost a request, so the store
// skips them.
type crowd struct{ recentNames }

const crowdFor = 2 * time.Second // how long a name is remembered after another process asked for it

// noteOthers records whether other processes are asking for a name now.
func (c *crowd) noteOthers(name string, others bool) {
	if others {
		c.note(name, crowdFor)
	} else {
		c.forget(name)
	}
}

// isCrowded reports whether other processes have asked for a name recently, within crowdFor.
func (c *crowd) isCrowded(name string) bool { return c.isRecent(name) }
