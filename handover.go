package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// chooseNext chooses the waiter that will get the lock that is being released. It returns the turn
// of that waiter, or nil if there is none. The turn is then in the state turnPassing until
// passingOver changes the state. Close waits until then. The caller holds mu.
func (l *Locker) chooseNext(name string) *turn {
	q := l.queues[name]
	if l.closed || !q.headParked() {
		return nil
	}
	t := q.line[0]
	t.state = turnPassing
	l.attempts++
	return t
}

// passed is the result of a release that tried to pass the lock on.
type passed struct {
	done   bool // the lock is released
	out    driver.Outcome
	unsure bool // a request without a reply may have released the lock
	asked  int  // how many requests were sent
	by     HandOver
}

// passOn tries to pass h on to t. In this process h is over already. The parameter usable is the
// instant at which the context of h would have ended.
func (h *hold) passOn(ctx context.Context, t *turn, usable driver.Instant) passed {
	l := h.locker
	asked, done := h.passLocally(t, usable)
	if done {
		return passed{done: true, out: driver.Released, by: HandOverInMemory}
	}
	l.mu.Lock()
	r, passer := t.a.request, l.handover.passer
	if passer == nil || asked > 0 || t.gone || l.closed || r.Shared {
		l.passingOver(t, turnCalled)
		l.unlock()
		return passed{asked: asked}
	}
	l.unlock()
	sent := l.clock.Now()
	out, g, err := passer.Pass(context.WithoutCancel(ctx), h.token, r)
	by := l.passedTo(t, &r, sent, g, err)
	if errors.Is(err, errors.ErrUnsupported) {
		return passed{}
	}
	return passed{err == nil, out, err != nil && !definite(err), 1, by}
}

// passedTo ends the state turnPassing of t when the store has replied. It returns how t got the
// lock, or NoHandOver. If the store may have granted a lock that t cannot take, that lock must be
// released by a clean-up. If the waiter of t has given up, passedTo begins the clean-up. Otherwise
// the state becomes turnUnsure, and the waiter begins the clean-up.
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, err error) (by HandOver) {
	granted, lost := err == nil && g.TTL > 0, err != nil && !definite(err)
	now := l.clock.Now()
	l.mu.Lock()
	becomes := turnSpent
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		becomes, l.handover.passer = turnCalled, nil
	case t.gone && (granted || lost):
		l.unlock()
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token, events: t.a.events}, max(r.TTL, r.AtLeast))
		l.mu.Lock()
	case granted && !l.closed && !t.gone && l.renewer.granted(t.a.h, sent, now, g, t.a.set.maxHold):
		becomes, by, t.a.by = turnGiven, HandOverByRelease, HandOverByRelease
		t.a.settle(now)
	case granted || lost:
		becomes = turnUnsure
	}
	l.passingOver(t, becomes)
	l.unlock()
	return by
}

// passLocally tries to pass h's hold in the store on to t, with the same lease and the next fence
// of the batch. It returns false if it could not pass the hold on. The number of requests that it
// returns is 1 if a request to reserve fences failed, and otherwise 0.
func (h *hold) passLocally(t *turn, usable driver.Instant) (requests int, done bool) {
	l := h.locker
	l.mu.Lock()
	b, raiser := h.batch, l.handover.raiser
	if !h.leavesTo(t, usable) {
		l.unlock()
		return 0, false
	}
	if !b.reserved && h.fence != 0 {
		b.left = int(min(uint64(b.left), driver.MaxFence-1-h.fence))
	}
	if !b.reserved && h.fence != 0 && b.left > 0 {
		last := h.fence + uint64(b.left)
		l.unlock()
		err := raiser.RaiseFence(context.Background(), h.name, h.token, last)
		l.mu.Lock()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			b.left, l.handover.raiser = 0, nil
		case err != nil:
			b.left, requests = 0, 1
		}
	}
	b.reserved = true
	if !h.leavesTo(t, usable) { // this may have changed while mu was not held
		l.unlock()
		return requests, false
	}
	h.handHoldTo(t, usable)
	l.unlock()
	return 0, true
}

// leavesTo reports whether t may take over h's hold now. At least half of the lease must be left.
// The caller holds mu.
func (h *hold) leavesTo(t *turn, usable driver.Instant) bool {
	l := h.locker
	now := l.clock.Now()
	return h.batch.hasRoom(now) && !t.gone && !l.closed && t.a.canTakeOver(h) && usable.Sub(now) >= h.ttl/2
}

// handHoldTo makes t the holder of h's hold in the store. If a renewal of h was planned, t gets
// this plan. If the release of h cancelled a renewal, the renewal of t is due at once. The caller
// holds mu.
func (h *hold) handHoldTo(t *turn, usable driver.Instant) {
	l, n := h.locker, t.a.h
	h.batch.left--
	n.batch, n.token = h.batch, h.token
	if n.fence = h.fence; h.fence != 0 {
		n.fence++
	}
	now := l.clock.Now()
	n.grantedAt, n.maxHoldAt = now, farFuture
	n.usable.Store(int64(usable))
	if n.renewAt = h.renewAt; n.renewAt == farFuture {
		n.renewAt = now
	}
	l.renewer.push(n)
	if h.bond != nil {
		l.renewer.watch(n, h.bond.Context)
	}
	t.a.by = HandOverInMemory
	t.a.settle(now)
	l.passingOver(t, turnGiven)
}
