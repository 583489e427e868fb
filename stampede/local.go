package stampede

import (
	"hash/maphash"
	"time"
)

// maxRemembered bounds the number of local copies, and of failures, that a Cache keeps in this
// process.
const maxRemembered = 10_000

// localValue is a decoded value that is kept for a short time.
type localValue struct {
	v     any
	until time.Time
}

// generations counts the calls of Invalidate in this process. A value that was loaded before an
// Invalidate must not become a local copy after it. So a reader remembers the count from before its
// Load. It keeps a local copy only if the count has not changed since. A hash of the key selects
// one of the counts.
type generations struct {
	seed   maphash.Seed
	counts [256]uint64
}

func (g *generations) of(name string) *uint64 {
	return &g.counts[maphash.String(g.seed, name)%uint64(len(g.counts))]
}

func (c *core) generation(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.generations.of(name)
}

func (c *core) fromLocal(name string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.local.getEntry(name)
	if l == nil {
		return nil, false
	}
	if !time.Now().Before(l.until) {
		c.local.remove(name)
		return nil, false
	}
	return l.v, true
}

// toLocal keeps v as a local copy, unless the key was invalidated since generation gen. It keeps v
// for the time that Local allows, but no longer than the value is fresh.
func (c *core) toLocal(j *job, v any, left time.Duration, gen uint64) {
	d := min(j.s.localFor, left)
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *c.generations.of(j.name) == gen {
		c.local.putEntry(j.name, localValue{v, time.Now().Add(d)})
	}
}
