package stampede

import "time"

// maxRemembered bounds what a Cache remembers in this process, of each kind.
const maxRemembered = 10_000

// localValue is a decoded value kept for a moment.
type localValue struct {
	v     any
	until time.Time
}

func (c *Cache) fromLocal(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.local[key]
	if !ok {
		return nil, false
	}
	if !time.Now().Before(l.until) {
		delete(c.local, key)
		return nil, false
	}
	return l.v, true
}

// toLocal keeps v for as long as Local and what is left of its time allow.
func (c *Cache) toLocal(j *job, v any, left time.Duration) {
	d := min(j.s.localFor, left)
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.local) >= maxRemembered {
		c.shrinkLocal()
	}
	c.local[j.key] = localValue{v, time.Now().Add(d)}
}

// shrinkLocal drops what is over, and if that is too little, whatever comes
// first.
func (c *Cache) shrinkLocal() {
	now := time.Now()
	for key, l := range c.local {
		if !now.Before(l.until) || len(c.local) >= maxRemembered {
			delete(c.local, key)
		}
	}
}
