package sqlstore

import "time"

// If nothing wakes the first waiter in a queue, it looks at the name from time to time. It may know
// from earlier holds how long a step takes. A step is the time from the beginning of one hold to
// the beginning of the next. Then the waiter can tell when the current hold will probably end. It
// looks more often around that time, and less often before:
//
//	expected end of the hold              pause before the next look
//	not known                             headPause
//	more than an eighth of a step away    earlyPause, but not past that eighth
//	at most an eighth of a step away      nearbyPause
//	overdue by at most an eighth          nearbyPause
//	overdue by more                       headPause
//
// If all holds take about the same time, the waiter finds their end sooner, and with fewer
// statements.
const (
	headPause   = 70 * time.Millisecond
	earlyPause  = 120 * time.Millisecond
	nearbyPause = 25 * time.Millisecond

	// minStep is the shortest step with which the first waiter uses the table above.
	minStep = 8 * headPause
)

// A pace is what a waiter has learned about how fast the queue moves.
type pace struct {
	since micros // when the last hold that the waiter has seen began; 0 if it has seen none
	// ahead is how many waiters were ahead of this one when it last saw a hold.
	ahead int
	step  time.Duration // from the beginning of one hold to that of the next; 0 if not known
}

// noteLook updates the pace after the waiter has looked at the name. The argument position is the
// number of waiters ahead of it.
func (p *pace) noteLook(st *state, position int, now micros) {
	h, _ := st.exclusive()
	if h == nil || h.Until <= now {
		return
	}
	if steps := p.ahead - position; p.since != 0 && steps > 0 && h.Since > p.since {
		p.step = h.Since.timeUntil(p.since) / time.Duration(steps)
	}
	p.since, p.ahead = h.Since, position
}

// firstPause returns how long the first waiter in the queue sleeps before it looks again.
func (p *pace) firstPause(now micros) time.Duration {
	if p.step < minStep {
		return headPause
	}
	left := p.since.add(p.step).timeUntil(now)
	switch near := p.step / 8; {
	case left > near:
		return max(min(earlyPause, left-near), nearbyPause)
	case left > -near:
		return nearbyPause
	}
	return headPause
}
