package stampede

import (
	"errors"
	"time"
)

// A Cache keeps a copy of the last values that it has loaded or made. The copies are used only
// while Values cannot be reached, so that a failure of Values makes no value disappear that this
// process knows. A copy keeps its times: it is fresh, or stale, for as long as the value in Values
// would be. An Invalidate in this process removes the copy.

// maxSpare bounds the size of all copies together, in bytes of the encoded values.
const maxSpare = 16 << 20

// askAgain is how long a Cache does not ask Values after a request that Values did not answer in
// the time that MaxWait allows. Otherwise each caller would wait for that time.
const askAgain = time.Second

// errSilent: Values has not answered an earlier request. It is asked again soon.
var errSilent = errors.New("stampede: the values did not answer a moment ago")

// spare is the copies of a Cache. core.mu guards it.
type spare struct {
	entries *lru[spareEntry]
	bytes   int
	silent  time.Time // Values is not asked before this time; zero: it has always answered
}

type spareEntry struct {
	Entry
	at time.Time // when Entry.Age was right
}

// toSpare keeps a copy of e. If the key was invalidated since gen was counted, it does nothing.
func (c *core) toSpare(name string, e *found) {
	if _, always := c.values.(*Memory); always { // values in this process can always be reached
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.absent() || *c.generations.of(name) != e.gen || len(e.Value) > maxSpare {
		return
	}
	if old := c.spare.entries.getEntry(name); old != nil {
		c.spare.bytes -= len(old.Value) // putEntry replaces it
	}
	c.spare.bytes += len(e.Value)
	if gone := c.spare.entries.putEntry(name, spareEntry{e.Entry, time.Now()}); gone != nil {
		c.spare.bytes -= len(gone.Value)
	}
	for c.spare.bytes > maxSpare {
		c.spare.drop(c.spare.entries.oldest())
	}
}

func (s *spare) drop(name string) {
	if old := s.entries.getEntry(name); old != nil {
		s.bytes -= len(old.Value)
		s.entries.remove(name)
	}
}

// fromSpare returns the copy of a value, or an absent one.
func (c *core) fromSpare(name string) found {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := found{gen: *c.generations.of(name)}
	if e := c.spare.entries.getEntry(name); e != nil {
		f.Entry = e.Entry
		f.Age += time.Since(e.at)
		if f.Age >= f.Keep {
			f.Entry = Entry{}
		}
	}
	return f
}

func (c *core) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.spare.silent.IsZero() && time.Now().Before(c.spare.silent)
}

func (c *core) noteSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare.silent = time.Now().Add(askAgain)
}
