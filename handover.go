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
// has ended the context of h. Without the release, h would be usable until usableUntil.
func (h *hold) passOn(ctx context.Context, t *turn, usableUntil driver.Instant) passed {
	l := h.locker
	asked, done := h.passLocally(ctx, t, usableUntil)
	if done {
		return passed{done: true, out: driver.OutcomeReleased, by: HandOverInMemory}
	}
	ended := ctx.Err() != nil // without mu, since ctx may be the context of a lock
	l.mu.Lock()
	r, passer := t.a.request, l.handover.passer
	if passer == nil || asked > 0 || t.gone || l.closed || r.Shared || ended {
		l.passingOver(t, turnCalled)
		l.unlock()
		return passed{asked: asked}
	}
	l.unlock()
	sent := l.clock.Now()
	out, g, queued, err := passer.Pass(ctx, h.token, r)
	by := l.passedTo(t, &r, sent, g, queued, err)
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
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, queued bool, err error) (by HandOver) {
	granted, queued, lost := err == nil && g.TTL > 0, err == nil && queued, err != nil && !definite(err)
	now := l.clock.Now()
	l.mu.Lock()
	newState := turnSpent
	switch {
	case t.gone && (granted || queued || lost):
		l.unlock()
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token, acquire: true, events: t.a.events}, max(r.TTL, r.AtLeast))
		l.mu.Lock()
	case granted && !l.closed && !t.gone && l.renewer.recordGrant(t.a.h, sent, now, g, t.a.set.maxHold):
		newState, by, t.a.by = turnGiven, HandOverByRelease, HandOverByRelease
		t.a.settle(now)
	case queued:
		newState = turnQueued
	case granted || lost:
		newState = turnUnsure
	}
	l.passingOver(t, newState)
	l.unlock()
	return by
}

// passLocally tries to give the lock of h to the waiter of t in memory. The store keeps its hold,
// with the same lease. The waiter gets the next fence of the batch. done reports whether the waiter
// got the lock. requests is 1 if a request to reserve fences failed, and otherwise 0.
func (h *hold) passLocally(ctx context.Context, t *turn, usableUntil driver.Instant) (requests int, done bool) {
	l := h.locker
	l.mu.Lock()
	b, raiser := h.batch, l.handover.raiser
	if !h.leavesTo(t, usableUntil) {
		l.unlock()
		return 0, false
	}
	if !b.reserved && h.fence != 0 {
		b.left = int(min(uint64(b.left), driver.MaxFence-1-h.fence))
	}
	if !b.reserved && h.fence != 0 && b.left > 0 {
		last := h.fence + uint64(b.left)
		l.unlock()
		err := raiser.RaiseFence(ctx, h.name, h.token, last)
		l.mu.Lock()
		if err != nil {
			b.left, requests = 0, 1
		}
	}
	b.reserved = true
	if !h.leavesTo(t, usableUntil) { // this may have changed while mu was not held
		l.unlock()
		return requests, false
	}
	h.handHoldTo(t, usableUntil)
	l.unlock()
	return 0, true
}

// leavesTo reports whether the waiter of t may take over the lock of h now. At least half of the
// lease must be left. The caller holds mu.
func (h *hold) leavesTo(t *turn, usableUntil driver.Instant) bool {
	l := h.locker
	now := l.clock.Now()
	return h.batch.hasRoom(now) && !t.gone && !l.closed && t.a.canTakeOver(h) && usableUntil.Sub(now) >= h.ttl/2
}

// handHoldTo gives the lock of h to the waiter of t. The hold in the store stays the same. If a
// renewal of h was planned, the new holder renews at the planned time. If the release of h
// cancelled a renewal, the new holder renews at once. The caller holds mu.
func (h *hold) handHoldTo(t *turn, usableUntil driver.Instant) {
	l, n := h.locker, t.a.h
	h.batch.left--
	n.batch, n.token = h.batch, h.token
	if n.fence = h.fence; h.fence != 0 {
		n.fence++
	}
	now := l.clock.Now()
	n.grantedAt, n.maxHoldAt = now, farFuture
	n.usable.Store(int64(usableUntil))
	if n.renewAt = h.renewAt; n.renewAt == farFuture {
		n.renewAt = now
	}
	l.renewer.plan(n)
	if h.bond != nil {
		l.renewer.watch(n, h.bond.Context)
	}
	t.a.by = HandOverInMemory
	t.a.settle(now)
	l.passingOver(t, turnGiven)
}
