package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// chooseNext returns who is to have the name of a lock that is being given
// back, or nil. Until its passing is over it stays where it is; Close waits for
// it. The caller holds mu.
func (l *Locker) chooseNext(name string) *turn {
	q := l.queues[name]
	if q == nil || !q.parked || l.closed {
		return nil
	}
	t := q.line[0]
	if t.handover.passing {
		return nil
	}
	t.handover.passing = true
	l.attempts++
	return t
}

// passingOver ends the passing on to t, which gets the lock or goes to the
// store. The caller holds mu.
func (l *Locker) passingOver(t *turn) {
	t.handover.passing = false
	if t.handover.given {
		t.ready <- struct{}{}
	} else if !t.gone {
		l.wakeHead(t.a.h.name)
	}
	l.attemptOver()
}

// passed is what became of a release that was to pass the lock on.
type passed struct {
	done   bool
	out    driver.Outcome
	unsure bool // it may have been carried out
	asked  int  // requests
}

// passOn gives h to t, if it can. h is over here; it was usable until then.
func (h *hold) passOn(t *turn, usable driver.Instant) passed {
	l := h.locker
	asked, done := h.passLocally(t, usable)
	if done {
		return passed{done: true, out: driver.Released}
	}
	l.mu.Lock()
	r, passer := t.a.request, l.handover.passer
	if passer == nil || asked > 0 || t.gone || r.Shared {
		l.passingOver(t)
		l.unlock()
		return passed{asked: asked}
	}
	l.unlock()
	sent := l.clock.Now()
	out, g, err := passer.Pass(context.Background(), h.token, r)
	l.passedTo(t, &r, sent, g, err)
	if errors.Is(err, errors.ErrUnsupported) {
		return passed{}
	}
	return passed{err == nil, out, err != nil && !definite(err), 1}
}

// passedTo tells t what the store answered to Pass. A grant that nobody takes
// is cleaned up.
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, err error) {
	granted, unsure := err == nil && g.TTL > 0, err != nil && !definite(err)
	now, left := l.clock.Now(), false
	l.mu.Lock()
	if t.handover.spent = !errors.Is(err, errors.ErrUnsupported); !t.handover.spent {
		l.handover.passer = nil
	}
	switch {
	case granted && !t.gone && !l.closed && l.renewer.granted(t.a.h, sent, now, g, t.a.set.maxHold):
		t.handover.given = true
		t.a.settle(now)
	case t.gone:
		left = granted || unsure
	default:
		t.handover.unsure = granted || unsure
	}
	if !left {
		l.passingOver(t)
	}
	l.unlock()
	if left {
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token}, r.TTL)
		l.mu.Lock()
		l.passingOver(t)
		l.unlock()
	}
}

// passLocally makes t the holder of what h held, in the same lease and with the
// next fence of the block. asked counts requests to the store, if it is in vain.
func (h *hold) passLocally(t *turn, usable driver.Instant) (asked int, done bool) {
	l := h.locker
	l.mu.Lock()
	b, raiser := h.batch, l.handover.raiser
	if !h.leavesTo(t, usable) {
		l.unlock()
		return 0, false
	}
	if !b.reserved && h.fence != 0 {
		last := h.fence + uint64(b.left)
		l.unlock()
		err := raiser.RaiseFence(context.Background(), h.name, h.token, last)
		l.mu.Lock()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			b.left, l.handover.raiser = 0, nil
		case err != nil:
			b.left, asked = 0, 1
		}
	}
	b.reserved = true
	if !h.leavesTo(t, usable) { // which may have changed meanwhile
		l.unlock()
		return asked, false
	}
	h.handHoldTo(t, usable)
	l.unlock()
	return 0, true
}

// leavesTo reports whether t may take h over now. A lease of which little is
// left is no good to begin with. The caller holds mu.
func (h *hold) leavesTo(t *turn, usable driver.Instant) bool {
	l := h.locker
	now := l.clock.Now()
	return h.batch.open(now) && !t.gone && !l.closed && t.a.follows(h) && usable.Sub(now) >= h.ttl/2
}

// handHoldTo gives t what h held. The renewal that was planned stands; one that
// was broken off is made up for. The caller holds mu.
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
	l.renewer.watch(n, h.bound)
	t.handover.given = true
	t.a.settle(now)
	l.passingOver(t)
}
