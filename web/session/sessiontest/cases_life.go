package sessiontest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func (c *check) gone() bool {
	_, err := c.a.Load(c.ctx, c.key)
	return errors.Is(err, sessionstore.ErrNotFound)
}

func ttlEnds(c *check) {
	start := time.Now() // the reply to Commit may be late
	_, err := c.a.Commit(c.ctx, c.key, sessionstore.Change{Create: true, TTL: c.Expire, Ops: []sessionstore.Op{c.put("a", "1")}})
	if err != nil {
		c.failf("%v", err)
	}
	c.eventually("the session has expired", c.gone)
	if took := time.Since(start); took < c.Expire/2 {
		c.errorf("it ended after %v, want %v", took, c.Expire)
	}
	c.refused("Commit to an expired session", sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2")}}, sessionstore.ErrNotFound)
	if err := c.a.Touch(c.ctx, c.key, long); err != nil || !c.gone() {
		c.errorf("Touch revived an expired session: %v", err)
	}
	c.create(c.put("b", "1"))
	c.has(map[string]any{"b": "1"})
}

// ttlRenewed: each commit sets the lifetime anew, be it shorter or longer than before.
func ttlRenewed(c *check) {
	c.create(c.put("a", "1"))
	for _, life := range []time.Duration{long / 2, 2 * long} {
		c.change(sessionstore.Change{TTL: life, Ops: []sessionstore.Op{c.put("a", "2")}})
		if ttl := c.load().TTL; ttl <= life/2 || ttl > life {
			c.errorf("it lives for %v, want %v", ttl, life)
		}
	}
}

func ttlForEver(c *check) {
	c.make(sessionstore.Change{Create: true, Ops: []sessionstore.Op{c.put("a", "1")}})
	if ttl := c.load().TTL; ttl != 0 {
		c.errorf("it lives for %v, want 0, for ever", ttl)
	}
	if err := c.a.Touch(c.ctx, c.key, long); err != nil || c.load().TTL == 0 {
		c.errorf("after Touch it still lives for ever: %v", err)
	}
	if err := c.a.Touch(c.ctx, c.key, 0); err != nil || c.load().TTL != 0 {
		c.errorf("Touch with 0: it does not live for ever: %v", err)
	}
	c.a.Delete(c.ctx, c.key)
}

// ttlLongest: a session with the longest TTL does not end at once, as it would if a sum overflowed.
func ttlLongest(c *check) {
	const longest = time.Duration(1<<63 - 1)
	c.make(sessionstore.Change{Create: true, TTL: longest, Ops: []sessionstore.Op{c.put("a", "1")}})
	lives := func(after string) {
		if ttl := c.load().TTL; ttl != 0 && ttl <= long {
			c.errorf("after %s it lives for %v, want %v", after, ttl, longest)
		}
	}
	lives("Commit")
	c.touch(longest)
	lives("Touch")
	c.a.Delete(c.ctx, c.key)
}

func deadline(c *check) {
	end := time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)
	c.make(sessionstore.Change{Create: true, Deadline: end, TTL: long})
	c.change(sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "1")}})
	if got := c.load().Deadline; c.a.Traits().NoDeadline {
		if !got.IsZero() {
			c.errorf("Traits say that it keeps no deadline, and it has %v", got)
		}
	} else if !got.Equal(end) {
		c.errorf("the deadline is %v, want %v", got, end)
	}
}

func touchProlongs(c *check) {
	before := c.create(c.put("a", "1"))
	c.touch(3 * long)
	r := c.load()
	if r.TTL <= 2*long || r.TTL > 3*long {
		c.errorf("it lives for %v, want %v", r.TTL, 3*long)
	}
	if r.Version != before.Version {
		c.errorf("Touch changed the version")
	}
	c.fields(r, map[string]any{"a": "1"})
}

func touchShortens(c *check) {
	c.create(c.put("a", "1"))
	c.touch(c.Expire)
	c.eventually("the session has expired", c.gone)
}

func touchNothing(c *check) {
	if err := c.a.Touch(c.ctx, c.key, long); err != nil {
		c.errorf("Touch where there is no session: %v", err)
	}
	if !c.gone() {
		c.errorf("Touch made a session")
	}
}

func deletes(c *check) {
	c.create(c.put("a", "1"))
	for range 2 {
		moved, err := c.a.Delete(c.ctx, c.key)
		if err != nil || moved.To.Text() != "" {
			c.errorf("Delete: %+v %v", moved, err)
		}
		if !c.gone() {
			c.errorf("it is still there")
		}
	}
	if _, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2")}}); !errors.Is(err, sessionstore.ErrNotFound) || !c.gone() {
		c.errorf("Commit to a deleted session: %v, want ErrNotFound", err)
	}
}

// deleteRace: after Delete there is no session, whatever ran at the same time.
func deleteRace(c *check) {
	c.create(c.put("a", "1"))
	var wg sync.WaitGroup
	for i := range 4 {
		c.spawn(&wg, func() {
			for c.ctx.Err() == nil {
				_, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{c.put("k"+strconv.Itoa(i), "x"), incr("n", 1)}})
				c.a.Touch(c.ctx, c.key, long)
				if err != nil {
					if !errors.Is(err, sessionstore.ErrNotFound) {
						c.errorf("%v", err)
					}
					return
				}
			}
		})
	}
	c.eventually("somebody wrote", func() bool { return len(c.load().Fields) > 3 })
	if _, err := c.a.Delete(c.ctx, c.key); err != nil {
		c.errorf("%v", err)
	}
	wg.Wait()
	if !c.gone() {
		c.errorf("the session is back")
	}
}

func (c *check) move(ttl time.Duration) sessionstore.Moved {
	m := sessionstore.Moved{To: sessionstore.KeyOf("the-new-key"), At: time.Now().Truncate(time.Millisecond)}
	if _, err := c.a.Commit(c.ctx, c.key, sessionstore.Change{Move: m, TTL: ttl}); err != nil {
		c.failf("Move: %v", err)
	}
	return m
}

func sameMove(a, b sessionstore.Moved) bool {
	return a.To.Text() == b.To.Text() && a.At.Equal(b.At)
}

func movedIsTombstone(c *check) {
	c.create(c.put("a", "1"))
	m := c.move(long)
	r := c.load()
	c.fields(r, map[string]any{"a": "1"})
	if !sameMove(r.Moved, m) || r.TTL <= 0 || r.TTL > long {
		c.errorf("it moved to %+v for %v, want %+v for %v", r.Moved, r.TTL, m, long)
	}
	for _, ch := range []sessionstore.Change{{Ops: []sessionstore.Op{c.put("a", "2")}}, {Version: "x"}, {Unchanged: []sessionstore.Condition{absent("a")}}, {Ops: []sessionstore.Op{incr("a", 1)}}, {Move: sessionstore.Moved{To: sessionstore.KeyOf("elsewhere"), At: m.At}}} {
		_, err := c.commit(ch)
		var moved *sessionstore.MovedError
		if !errors.As(err, &moved) || !sameMove(moved.Moved, m) {
			c.errorf("Commit to a tombstone: %v, want a *MovedError", err)
		}
	}
	c.refused("Create over a tombstone", sessionstore.Change{Create: true}, sessionstore.ErrExists)
	c.has(map[string]any{"a": "1"})
}

func movedConditions(c *check) {
	old := c.create(c.put("a", "1"))
	now, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2")}})
	if err != nil {
		c.failf("%v", err)
	}
	m := sessionstore.Moved{To: sessionstore.KeyOf("the-new-key"), At: time.Now().Truncate(time.Millisecond)}
	c.refused("Move with an old version", sessionstore.Change{Version: old.Version, Move: m}, sessionstore.ErrConflict)
	if r := c.load(); r.Moved.To.Text() != "" {
		c.errorf("it moved all the same")
	}
	if _, err := c.commit(sessionstore.Change{Version: now.Version, Move: m, Ops: []sessionstore.Op{c.put("b", "3")}}); err != nil {
		c.errorf("Move with the version that it has: %v", err)
	}
	r := c.load()
	c.fields(r, map[string]any{"a": "2", "b": "3"})
	if !sameMove(r.Moved, m) {
		c.errorf("it moved to %+v, want %+v", r.Moved, m)
	}
}

func movedEnds(c *check) {
	c.create(c.put("a", "1"))
	c.move(c.Expire)
	if err := c.a.Touch(c.ctx, c.key, long); err != nil {
		c.errorf("Touch: %v", err)
	}
	c.eventually("the tombstone has expired", c.gone)
}

func movedDeleted(c *check) {
	c.create(c.put("a", "1"))
	m := c.move(long)
	if got, err := c.a.Delete(c.ctx, c.key); err != nil || !sameMove(got, m) {
		c.errorf("Delete of a tombstone: %+v %v, want %+v", got, err, m)
	}
	if !c.gone() {
		c.errorf("it is still there")
	}
}

// movedRace increments a number while the session moves to a new id. The increments before the move
// must be in the tombstone. The increments after the move must fail.
func movedRace(c *check) {
	c.create()
	var mu sync.Mutex
	var counted int64
	var wg sync.WaitGroup
	var counting sync.RWMutex // the mover stops the others if they are too fast for it
	for range 4 {
		c.spawn(&wg, func() {
			for c.ctx.Err() == nil {
				counting.RLock()
				_, err := c.commit(sessionstore.Change{Ops: []sessionstore.Op{incr("n", 1)}})
				counting.RUnlock()
				if errors.Is(err, sessionstore.ErrMoved) {
					return
				}
				if err != nil {
					c.errorf("%v", err)
					return
				}
				mu.Lock()
				counted++
				mu.Unlock()
			}
		})
	}
	c.eventually("somebody counted", func() bool { mu.Lock(); defer mu.Unlock(); return counted > 5 })
	move := func(calm bool) error {
		if calm {
			counting.Lock()
			defer counting.Unlock()
		}
		m := sessionstore.Moved{To: sessionstore.KeyOf("the-new-key"), At: time.Now().Truncate(time.Millisecond)}
		_, err := c.a.Commit(c.ctx, c.key, sessionstore.Change{Version: c.load().Version, Move: m, TTL: long})
		return err
	}
	for try := 1; c.ctx.Err() == nil; try++ {
		err := move(try%20 == 0)
		if err == nil {
			break
		}
		if !errors.Is(err, sessionstore.ErrConflict) {
			c.failf("Move: %v", err)
		}
	}
	wg.Wait()
	c.has(map[string]any{"n": counted})
}

func contextEnded(c *check) {
	c.create(c.put("a", "1"))
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if _, err := c.a.Load(ctx, c.key); err == nil || errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("Load with a context that has ended: %v", err)
	}
	if _, err := c.a.Commit(ctx, c.key, sessionstore.Change{Ops: []sessionstore.Op{c.put("a", "2")}, TTL: long}); err == nil || errors.Is(err, sessionstore.ErrNotFound) {
		c.errorf("Commit with a context that has ended: %v", err)
	}
	if _, err := c.a.Delete(ctx, c.key); err == nil {
		c.errorf("Delete with a context that has ended: no error")
	}
	c.has(map[string]any{"a": "1"})
}
