package sqlstore

import (
	"time"

	"github.com/padlock-go/padlock/storekit/decide"
)

// If nothing wakes the first waiter in a queue, it looks at the name from time to time. To save
// statements, it guesses when the current hold will end. A step is the time from the beginning of
// one hold to the beginning of the next. A waiter that has measured a step expects the current hold
// to end one step after that hold began. It looks most often in the middle period, from step/8
// before the expected end to step/8 after it:
//
//	now                       pause before the next look
//	no step is known          headPause
//	before the middle period  earlyPause, or until the middle period begins if that is sooner
//	in the middle period      nearbyPause
//	after the middle period   headPause
//	later than near        headPause
const (
	headPause   = 70 * time.Millisecond
	earlyPause  = 120 * time.Millisecond
	nearbyPause = 25 * time.Millisecond

	// minStep is the shortest step for which the table above is used. If steps are shorter, the
	// waiter always pauses for headPause.
	minStep = 8 * headPause
)

// A pace is what a waiter has learned about how fast the queue moves.
type pace struct {
	since decide.Time // the beginning of the hold that the waiter saw last; 0 if it has seen none
	// ahead is how many waiters were ahead of this one when it last saw a hold.
	ahead int
	step  time.Duration // from the beginning of one hold to that of the next; 0 if not known
}

// noteLook updates the pace after the waiter has looked at the name. The argument position is the
// number of waiters ahead of it.
func (p *pace) noteLook(st *state, position int, now decide.Time) {
	h, _ := st.exclusive()
	if h == nil || h.Until <= now {
		return
	}
	if steps := p.ahead - position; p.since != 0 && steps > 0 && h.Since > p.since {
		p.step = h.Since.Sub(p.since) / time.Duration(steps)
	}
	p.since, p.ahead = h.Since, position
}

// firstPause returns how long the first waiter in the queue sleeps before it looks again.
func (p *pace) firstPause(now decide.Time) time.Duration {
	if p.step < minStep {
		return headPause
	}
	left := p.since.Add(p.step).Sub(now)
	switch near := p.step / 8; {
	case left > near:
		return max(min(earlyPause, left-near), nearbyPause)
	case left > -near:
		return nearbyPause
	}
	return headPause
}
