package sqlstore

import (
	"maps"
	"sync"
	"time"
)

// A crowd remembers the names that more than one process asks for. For these names the store skips
// the single-statement shortcuts: they work only for a free name or for a hold without waiters, so
// here they would only cost a request.
type crowd struct {
	mu    sync.Mutex
	until map[string]time.Time
}

const (
	crowdFor = 2 * time.Second // how long a name is remembered after others asked for it
	maxCrowd = 1024            // most names that are remembered
)

// noteOthers remembers whether others ask for a name.
func (c *crowd) noteOthers(name string, others bool) {
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

// isCrowded reports whether others have asked for a name within the last crowdFor.
func (c *crowd) isCrowded(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.until[name]
	return ok && time.Now().Before(t)
}
