package padlock

import "github.com/padlock-go/padlock/driver"

// settle completes an attempt that has just got the lock. The caller holds mu.
func (a *attempt) settle(now driver.Instant) {
	l := a.l
	if !a.gate {
		l.stats.acquired++
	}
	// Locker.attempts counts the calls that Close waits for. A call of Do is counted until its
	// function has returned. If the lock is passed on to a waiter, the waiter is counted until it
	// has taken the lock.
	if !a.within && (a.place == nil || a.place.state != turnPassing) {
		l.attempts--
	}
	if l.handover.holders != nil && a.mayPassOn() {
		l.handover.holders[a.h.name] = a.h
		if a.h.batch == nil && a.replaces == nil { // an adopted lock may still have to be held for the time of HoldAtLeast
			a.h.batch = l.newBatch(now)
		}
	}
	if a.place != nil {
		a.line.held, a.line.holder = nil, a.h
		a.leaveLineLocked()
	}
	if a.events != nil {
		a.events.holdBack = true // announce delivers EventAcquired, and then the other events of the hold
	}
}

// attemptOver counts an attempt as ended. If it was the last attempt, attemptOver wakes a Close
// that waits for the end of all attempts. The caller holds mu.
func (l *Locker) attemptOver() {
	l.attempts--
	if l.drained != nil && l.attempts == 0 {
		close(l.drained)
		l.drained = nil
	}
}

// passingOver ends the state turnPassing of t. It gives t the new state and wakes the waiter. If
// the waiter has given up, the state stays as it is. The caller holds mu.
func (l *Locker) passingOver(t *turn, newState turnState) {
	// A waiter that got the lock has left the line. So t.gone may be true in turnGiven.
	if !t.gone || newState == turnGiven {
		t.state = newState
		t.ready <- struct{}{}
	}
	l.attemptOver()
}
