package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// batch is a hold in the store that goes from one holder of this Locker to the
// next without a word to the store, under PassLocally. It is guarded by mu, and
// goes with the lock.
type batch struct {
	until    driver.Instant // then nobody takes it over any more
	left     int            // how many may follow
	reserved bool           // fences for them
}

// open reports whether another may follow.
func (b *batch) open(now driver.Instant) bool { return b != nil && b.left > 0 && now < b.until }

// newBatch is called when the store has granted a lock.
func (l *Locker) newBatch(now driver.Instant) *batch {
	if l.cfg.passMost == 0 || l.raiser == nil && l.guarantees.Fence != driver.NoFence {
		return nil
	}
	return &batch{until: now.Add(l.cfg.passFor), left: l.cfg.passMost - 1}
}

// follows reports whether a may take over the hold of h as it stands in the
// store: whatever others are told of h is true of a, and a asks for nothing
// that only a grant can give.
func (a *attempt) follows(h *hold) bool {
	n := a.h
	return !n.shared && n.ttl == h.ttl && n.label == h.label && n.plan == 0 && h.plan == 0 &&
		a.set.holdAtLeast == 0 && a.set.fenceAbove <= h.fence
}

// passLocally makes t the holder of what h held, in the same lease and with the
// next fence of the block. asked counts requests to the store, if it is in vain.
func (h *hold) passLocally(t *turn, usable driver.Instant) (asked int, done bool) {
	l := h.locker
	l.mu.Lock()
	b, raiser := h.batch, l.raiser
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
			b.left, l.raiser = 0, nil
		case err != nil:
			b.left, asked = 0, 1
		}
	}
	b.reserved = true
	if !h.leavesTo(t, usable) { // which may have changed meanwhile
		l.unlock()
		return asked, false
	}
	h.bequeath(t, usable)
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

// bequeath gives t what h held. The renewal that was planned stands; one that
// was broken off is made up for. The caller holds mu.
func (h *hold) bequeath(t *turn, usable driver.Instant) {
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
	l.keeper.push(n)
	l.keeper.watch(n, h.bound)
	t.heir.given = true
	t.a.settle(now)
	l.passingOver(t)
}
