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

// generations counts the calls of Invalidate in this process. A reader must not keep a local copy
// of a value that it loaded before an Invalidate. So the reader remembers the count before it loads
// the value. It keeps a local copy only if the count is still the same. There are 256 counts; a
// hash of the key selects one.
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

// toLocal keeps v as a local copy, for the time that Local allows, but not longer than left. gen is
// the count that the caller remembered before it loaded or made v. If the key was invalidated
// since, toLocal does nothing.
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
