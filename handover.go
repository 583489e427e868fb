package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// chooseNext returns the turn that will get the lock that is being released, or nil. That turn
// stays in the state passing until passingOver changes its state. Until then Close waits. The
// caller holds mu.
func (l *Locker) chooseNext(name string) *turn {
	q := l.queues[name]
	if l.closed || !q.headParked() {
		return nil
	}
	t := q.line[0]
	t.state = passing
	l.attempts++
	return t
}

// passed is the result of a release that tried to pass the lock on.
type passed struct {
	done   bool // the lock is released
	out    driver.Outcome
	unsure bool // the lock may be released
	asked  int  // how many requests were sent
	by     HandOver
}

// passOn passes h on to t if it can. h is over in this process already. The parameter usable is the
// end of h's lease in this process.
func (h *hold) passOn(ctx context.Context, t *turn, usable driver.Instant) passed {
	l := h.locker
	asked, done := h.passLocally(t, usable)
	if done {
		return passed{done: true, out: driver.Released, by: HandOverInMemory}
	}
	l.mu.Lock()
	r, passer := t.a.request, l.handover.passer
	if passer == nil || asked > 0 || t.gone || l.closed || r.Shared {
		l.passingOver(t, called)
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

// passedTo ends the passing state of t when the store has replied. A grant that no waiter takes is
// cleaned up. If the waiter has given up, passedTo begins that clean-up. Otherwise the state
// becomes unsure, and the waiter begins the clean-up. passedTo returns how t got the lock, or
// NoHandOver.
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, err error) (by HandOver) {
	granted, lost := err == nil && g.TTL > 0, err != nil && !definite(err)
	now := l.clock.Now()
	l.mu.Lock()
	becomes := spent
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		becomes, l.handover.passer = called, nil
	case t.gone && (granted || lost):
		l.unlock()
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token, events: t.a.events}, max(r.TTL, r.AtLeast))
		l.mu.Lock()
	case granted && !l.closed && !t.gone && l.renewer.granted(t.a.h, sent, now, g, t.a.set.maxHold):
		becomes, by, t.a.by = given, HandOverByRelease, HandOverByRelease
		t.a.settle(now)
	case granted || lost:
		becomes = unsure
	}
	l.passingOver(t, becomes)
	l.unlock()
	return by
}

// passLocally passes h's hold in the store on to t, with the same lease and the next fence of the
// batch. If passLocally could not pass the hold on, done is false. If a request to reserve fences
// failed, requests is 1, and otherwise 0.
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

// handHoldTo makes t the holder of h's hold in the store. A renewal that was planned stays planned.
// A renewal that the release cancelled is due at once. The caller holds mu.
func (h *hold) handHoldTo(t *turn, usable driver.Instant) {
	l, n := h.locker, t.a.h
	h.batch.left--
	n.batch, n.token = h.batch, h.token
	if n.fence = h.fence; h.fence != 0 {
		n.fence++
	}
	now := l.clock.Now()
	n.grantedAt, n.maxHoldAt = now, never
	n.usable.Store(int64(usable))
	if n.renewAt = h.renewAt; n.renewAt == never {
		n.renewAt = now
	}
	l.renewer.push(n)
	if h.bond != nil {
		l.renewer.watch(n, h.bond.Context)
	}
	t.a.by = HandOverInMemory
	t.a.settle(now)
	l.passingOver(t, given)
}
