package padlock

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// passed is the result of a release that tried to pass the lock on.
type passed struct {
	done   bool // the lock is released
	out    driver.Outcome
	unsure bool // a request without a reply may have released the lock
	asked  int  // how many requests were sent
	by     HandOver
}

// passOn tries to pass the lock of h on to the waiter of t. The release of h calls passOn after it
// has ended the context of h.
func (h *hold) passOn(ctx context.Context, t *turn) passed {
	l := h.locker
	ended := ctx.Err() != nil // without mu, since ctx may be the context of a lock
	l.mu.Lock()
	r, passer := t.a.request, l.handover.passer
	if t.gone || l.closed || r.Shared || ended {
		t.passingOver(turnCalled)
		l.unlock()
		return passed{}
	}
	l.unlock()
	sent := l.clock.Now()
	out, g, err := passer.Pass(ctx, h.token.Text(), r)
	by := l.passedTo(t, &r, sent, g, err)
	return passed{err == nil, out, err != nil && !definite(err), 1, by}
}

// passedTo handles the store's reply to a request that passes a lock on to a waiter. t is the turn
// of that waiter. Its state is turnPassing, and passedTo changes the state. passedTo returns how
// the waiter got the lock, or NoHandOver if the waiter did not get it.
//
// If the reply was lost, the store may have granted a lock that nobody takes. A clean-up must then
// release that lock. The same is true if the reply came too late, or after Close. If the waiter has
// given up, passedTo begins the clean-up. Otherwise the state becomes turnUnsure, and the waiter
// begins the clean-up.
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, err error) (by HandOver) {
	granted, lost := err == nil && g.TTL > 0, err != nil && !definite(err)
	now := l.clock.Now()
	l.mu.Lock()
	newState := turnSpent
	switch {
	case t.gone && (granted || lost):
		l.unlock()
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token, acquire: true, events: t.a.events}, r.TTL)
		l.mu.Lock()
	case granted && !l.closed && !t.gone && l.renewer.recordGrant(t.a.h, sent, now, g, t.a.set.maxHold):
		newState, by, t.a.by = turnGiven, HandOverByRelease, HandOverByRelease
		t.a.complete(now)
	case granted || lost:
		newState = turnUnsure
	}
	t.passingOver(newState)
	l.unlock()
	return by
}
