package sqlstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// A waiter that nothing wakes asks the database again and again. It asks less often if the queue
// moves slowly and if more waiters are ahead, even right after the queue has moved.
func TestPauseFollowsTheQueue(t *testing.T) {
	for _, c := range []struct {
		position       int
		perStep, pause time.Duration // how long a step of the queue takes, and the pause after it
	}{
		{0, time.Minute, headPause},
		{1, time.Minute, nextPause},
		{3, time.Minute, 3 * nextPause},
		{4, 6 * time.Second, 8 * time.Second},
		{4, 3 * time.Second, 4 * time.Second},
		{8, 3 * time.Second, 8 * time.Second},
		{8, 3 * time.Millisecond, headPause},
		{40, time.Minute, lastPause},
	} {
		for _, steps := range []int{1, 2} { // the waiter sees one step of the queue, or two at once
			synctest.Test(t, func(t *testing.T) {
				s := &Store{}
				one, remove := s.local.add("name", "token")
				defer remove()
				w := &waitCall{s: s, localWaiter: one}
				st := newScript(t).st
				w.pauseAt(st, c.position+steps, 0)
				<-time.After(time.Duration(steps) * c.perStep)
				if d := w.pauseAt(st, c.position, 0); d != c.pause {
					t.Errorf("%d waiters ahead after %d steps of %v: a pause of %v, want %v", c.position, steps, c.perStep, d, c.pause)
				}
			})
		}
	}
}
