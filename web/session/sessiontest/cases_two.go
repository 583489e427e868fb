package sessiontest

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// movedTwo: two callers move a session at the same time. Only one of them succeeds, and both learn
// the new key.
func movedTwo(c *check) {
	for round := range 20 {
		key := c.key + strconv.Itoa(round)
		made, err := c.a.Commit(c.ctx, key, sessionstore.Change{Create: true, TTL: long, Ops: []sessionstore.Op{c.put("a", "1")}})
		if err != nil {
			c.failf("%v", err)
		}
		c.twoMoves(key, made.Version)
	}
}

func (c *check) twoMoves(key, version string) {
	var errs [2]error
	var moves [2]sessionstore.Moved
	begin := make(chan bool)
	var wg sync.WaitGroup
	for i, s := range []sessionstore.Store{c.a, c.b} {
		moves[i] = sessionstore.Moved{To: sessionstore.KeyOf(key + "-" + strconv.Itoa(i)), At: time.Now().Truncate(time.Millisecond)}
		c.spawn(&wg, func() {
			<-begin
			_, errs[i] = s.Commit(c.ctx, key, sessionstore.Change{Version: version, Move: moves[i], TTL: long})
		})
	}
	close(begin)
	wg.Wait()
	won := 0
	if errs[0] != nil {
		won = 1
	}
	if errs[won] != nil || errs[1-won] == nil {
		c.failf("two moves at once: %v, %v; want that one succeeds", errs[0], errs[1])
	}
	var told *sessionstore.MovedError
	if errors.As(errs[1-won], &told) && !sameMove(told.Moved, moves[won]) {
		c.errorf("the refused move reports that the session is at %q, and it is at %q", told.Moved.To.Text(), moves[won].To.Text())
	} else if told == nil && !errors.Is(errs[1-won], sessionstore.ErrConflict) {
		c.errorf("the refused move: %v, want a *MovedError", errs[1-won])
	}
	r, err := c.a.Load(c.ctx, key)
	if err != nil || !sameMove(r.Moved, moves[won]) {
		c.failf("after two moves Load reports %q (%v), and the one that succeeded was to %q", r.Moved.To.Text(), err, moves[won].To.Text())
	}
	if at, err := c.b.Delete(c.ctx, key); err != nil || !sameMove(at, moves[won]) {
		c.errorf("after two moves Delete reports %q (%v), want %q", at.To.Text(), err, moves[won].To.Text())
	}
}
