package sqlstore

import "time"

// The first waiter in a queue looks every headPause, if nothing wakes it. If it can tell when the
// hold before it will probably end, it looks more often around that time and less often before:
//
//	time left until the expected end    the first waiter looks
//	not known                           every headPause
//	more than an eighth of a step       every earlyPause, and when an eighth is left
//	less than an eighth, or that late   every nearbyPause
//	later                               every headPause
//
// For holds that all take about the same time, that finds the end sooner with fewer statements.
const (
	headPause   = 70 * time.Millisecond
	earlyPause  = 120 * time.Millisecond
	nearbyPause = 25 * time.Millisecond

	// minStep is the shortest time of a hold for which a pace is of use.
	minStep = 8 * headPause
)

// A pace is what a waiter has learned about the holders before it.
type pace struct {
	since micros        // when the hold that the waiter saw last began; 0 if it has seen none
	ahead int           // how many waiters were ahead then
	step  time.Duration // from the beginning of one hold to that of the next; 0 if not known
}

// learn notes what the waiter sees in a look. position is the number of waiters ahead of it.
func (p *pace) learn(st *state, position int, now micros) {
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
