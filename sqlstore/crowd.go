package sqlstore

import (
	"maps"
	"sync"
	"time"
)

// A crowd knows the names for which more than one process asks. The statements for a name that is
// plainly free, or a hold for which nobody waits, would change nothing there and cost a request.
type crowd struct {
	mu    sync.Mutex
	until map[string]time.Time
}

const (
	crowdFor = 2 * time.Second // after the last sign of others
	maxCrowd = 1024            // names; more are not remembered
)

// note remembers whether others ask for a name.
func (c *crowd) note(name string, others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !others {
		delete(c.until, name)
		return
	}
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	now := time.Now()
	if len(c.until) >= maxCrowd {
		maps.DeleteFunc(c.until, func(_ string, t time.Time) bool { return t.Before(now) })
	}
	if len(c.until) < maxCrowd {
		c.until[name] = now.Add(crowdFor)
	}
}

// at reports whether others asked for a name a short time ago.
func (c *crowd) at(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.until[name]
	return ok && time.Now().Before(t)
}
