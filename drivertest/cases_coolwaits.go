package drivertest

import (
	"time"
)

// coolWaitCases check that a waiter learns of a cool-down that a release has left. The waiter knew
// only the lease before, and planned to look at the name again when that lease ends, or when its
// store looks anyway.
var coolWaitCases = []testCase{
	{
		name:   "wait/cooldown-in-time",
		clause: "When a release leaves a cool-down, a waiter gets its turn right after the end of it, not when the lease would have ended or when the store looks anyway.",
		needs:  []need{coolDowns},
		f: func(c *check) {
			for _, reserve := range []bool{true, false} {
				l := c.take(c.a, c.request(c.newName()), "of a free name")
				c.cooledInTime(l, c.waitForName(c.b, c.request(l.req.Name), reserve))
			}
		},
	},
}

// cooledInTime releases l, which w waits for, and leaves a cool-down. Another name gets a cool-down
// that ends a little later. When that name is free, the waiter must have had its turn.
func (c *check) cooledInTime(l *lease, w *testWaiter) {
	short, gap := max(c.unit, 300*time.Millisecond), max(2*c.unit, time.Second)
	other := c.take(c.a, c.request(c.newName()), "of another free name")
	c.settle() // the waiter plans its next look
	c.cool(l, short)
	c.cool(other, short+gap)
	c.takeSoon(c.a, c.request(other.req.Name), "after a cool-down that nobody waits for")
	if w.waiting() {
		c.failLate(gap, "a waiter had no turn within %v after the end of a cool-down", gap)
	}
	c.releaseFreely(c.awaitHold(w, "waiting for a cool-down to end"))
}
