package padlock

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// takesAnySlot reports whether the store takes any permit for such a call in one step.
func (l *Locker) takesAnySlot(set *settings) bool {
	most := l.guarantees.SlotsAtOnce
	return l.slotTaker != nil && (most == 0 || set.slots <= most) && set.fenceAbove == 0
}

// anyPermit takes any permit of a name with one request.
type anyPermit struct {
	a        *attempt
	overtake bool // may overtake the callers that wait for the gate
}

// Acquire notes in the attempt which permit it has. The name of the attempt is that of all permits
// as long as the permit is not known.
func (p *anyPermit) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	p.a.h.name = r.Name
	slot, g, err := p.a.l.slotTaker.AcquireSlot(ctx, r, p.a.set.slots, p.overtake)
	if err == nil {
		p.a.h.name = fast.SlotName(r.Name, slot)
	}
	return g, err
}

// scan tries each permit once, with one request if possible. If overtake is true, this call may
// overtake the callers that wait for the gate.
func (p *permitCall) scan(overtake bool) (*hold, error) {
	if !p.l.takesAnySlot(&p.set) {
		mine, err := p.findPermit()
		if err != nil {
			return nil, err
		}
		if mine < 0 && !overtake && !p.set.skip && p.gateTaken() {
			return nil, p.refusal()
		}
		return p.scanSingly(mine)
	}
	a := p.attempt()
	a.taker, a.permits = &anyPermit{a, overtake}, p.set.slots
	h, err := a.take(p.name)
	p.noteOutcome(err)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, ErrHeld):
		err = p.heldAll(err)
	}
	return nil, err
}

// heldAll records that all permits are held, and returns the error for the caller. The holders of
// the permits come from err.
func (p *permitCall) heldAll(err error) error {
	clear(p.held)
	var all *HeldError
	if errors.As(err, &all) {
		for i := range min(len(all.Holds), len(p.held)) {
			p.held[i] = &HeldError{Holds: all.Holds[i : i+1], Until: all.Holds[i].Until}
		}
	}
	err = p.refusal()
	p.poll.until(err)
	return err
}

// gateTaken reports whether other callers wait for a permit. It asks the store only if the store
// promises an order: then the first of these callers has the gate, or the store's queue has a
// waiter for the gate. If the store does not answer, gateTaken returns false, and the scan that
// follows meets the same trouble.
func (p *permitCall) gateTaken() bool {
	if !p.l.guarantees.FIFO || p.l.admin == nil || !p.l.can(driver.AbilityInspect) {
		return false
	}
	gate, err := p.l.admin.Inspect(p.ctx, fast.SlotGate(p.name, p.set.slots))
	return err == nil && (len(gate.Holds) > 0 || gate.Waiters > 0)
}

// scanSingly tries one permit after the other. If there are many permits, it begins with a random
// one, because the first ones are more likely to be held; and behind the permit that it got before. If the caller's token has a permit, mine
// is that permit, and otherwise -1.
func (p *permitCall) scanSingly(mine int) (*hold, error) {
	first := max(mine, p.next)
	if len(p.held) > watchMost && p.set.token.IsZero() && p.next == 0 {
		first = rand.IntN(len(p.held))
	}
	for i := range p.held {
		i = (first + i) % len(p.held)
		h, err := p.attempt().take(fast.SlotName(p.name, i))
		if p.noteOutcome(err); err == nil {
			p.next = i + 1
			return h, nil
		}
		if !errors.Is(err, ErrHeld) && !splitVote(err) {
			return nil, err
		}
		p.held[i] = err
	}
	err := p.refusal()
	p.poll.until(err)
	return nil, err
}

// noteOutcome notes whether the caller's token may have a permit after the error of a try.
func (p *permitCall) noteOutcome(err error) {
	p.unsure = err != nil && (p.unsure || !p.set.token.IsZero() && errors.Is(err, ErrUncertain))
}

// refusal returns one *HeldError for all permits.
func (p *permitCall) refusal() error {
	all := &HeldError{Waiters: -1}
	for _, err := range p.held {
		var held *HeldError
		if !errors.As(err, &held) {
			continue
		}
		all.Holds = append(all.Holds, held.Holds...)
		if all.Until.IsZero() || !held.Until.IsZero() && held.Until.Before(all.Until) {
			all.Until = held.Until
		}
	}
	p.l.mu.Lock()
	p.noteContended(all)
	p.l.unlock()
	return all
}

// skips reports whether SkipIfOutlived applies: the holders of so many permits plan to keep them beyond
// the end of this wait that the others are too few.
func (p *permitCall) skips() bool {
	left := 0
	for _, held := range p.held {
		if !p.outlived(held) {
			left++
		}
	}
	return p.set.skip && left < max(1, p.set.weight)
}

// attempt returns an attempt to get a permit at once.
func (p *permitCall) attempt() *attempt {
	a := &attempt{call: *p.call}
	a.noted, a.set.wait = true, 0
	return a
}

// findPermit returns the permit that the caller's token has, or -1. A store that cannot take any
// permit in one step would grant the token a second permit.
func (p *permitCall) findPermit() (int, error) {
	if p.set.token.IsZero() {
		return -1, nil
	}
	for i := range p.set.slots {
		_, err := p.l.store.Extend(p.ctx, fast.SlotName(p.name, i), p.set.token.Text(), 0)
		switch {
		case err == nil:
			return i, nil
		case !errors.Is(err, ErrLost) && !errors.Is(err, ErrExpired):
			return -1, err
		}
	}
	return -1, nil
}
