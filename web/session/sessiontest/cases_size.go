package sessiontest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// size returns the bytes of all keys and values of the session.
func (c *check) size() int {
	n := 0
	for _, f := range c.load().Fields {
		n += len(f.Key) + len(f.Value)
	}
	return n
}

// sizeBounded: a change that would exceed Change.MaxSize is refused as a whole. A session that is
// already larger may shrink.
func sizeBounded(c *check) {
	c.create(c.put("a", strings.Repeat("x", 100)), c.put("n", 7))
	size := c.size()
	grow := []sessionstore.Op{incr("n", 1), c.put("b", "y")}
	with := size + 1 + len(c.Encode("y"))
	for limit, fits := range map[int]bool{with - 1: false, size: false, 1: false} {
		_, err := c.commit(sessionstore.Change{Ops: grow, MaxSize: limit})
		if errors.Is(err, sessionstore.ErrTooLarge) == fits {
			c.errorf("%d bytes with MaxSize %d: %v", with, limit, err)
		}
	}
	c.has(map[string]any{"a": strings.Repeat("x", 100), "n": 7})
	for _, limit := range []int{with, 0} {
		if _, err := c.commit(sessionstore.Change{Ops: grow[1:], MaxSize: limit}); err != nil {
			c.errorf("%d bytes with MaxSize %d: %v", with, limit, err)
		}
	}
	for _, op := range []sessionstore.Op{c.put("a", "shorter"), del("a"), take("b")} {
		if _, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{op}, MaxSize: 1}); err != nil {
			c.errorf("it may not shrink: %v", err)
		}
	}
	c.refused("a new counter with MaxSize 1", sessionstore.Change{Ops: []sessionstore.Op{incr("m", 5)}, MaxSize: 1}, sessionstore.ErrTooLarge)
	c.has(map[string]any{"n": 7})
}

// sizeOfNew: a session that would be too large is not made.
func sizeOfNew(c *check) {
	ch := sessionstore.Change{Create: true, TTL: long, MaxSize: 20, Ops: []sessionstore.Op{c.put("a", strings.Repeat("x", 100))}}
	c.refused("create", ch, sessionstore.ErrTooLarge)
	if _, err := c.b.Load(c.ctx, c.key); !errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("it was made: %v", err)
	}
}

// sizeCrowd: even many commits at the same time do not make a session larger than the limit.
func sizeCrowd(c *check) {
	c.create(c.put("a", 1))
	const limit = 500
	c.crowd(20, func(i int) {
		_, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{c.put(fmt.Sprint("k", i), strings.Repeat("x", 100))}, MaxSize: limit})
		if err != nil && !errors.Is(err, sessionstore.ErrTooLarge) {
			c.errorf("%v", err)
		}
	})
	if n := c.size(); n > limit || n < limit/2 {
		c.errorf("%d bytes with MaxSize %d", n, limit)
	}
}
