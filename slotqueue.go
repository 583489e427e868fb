package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// On most stores, a caller that waits for a permit waits for the gate (see permitCall). A
// driver.SlotQueuer has a queue for permits. It hands each free permit over to the first waiter in
// the queue. So the callers of one Locker still wait in its line for the gate, but the first of
// them waits in the store for a permit.
//
// Some callers cannot wait for a permit in the store. They wait for the gate. When such a caller
// has the gate, it may pass the gate on to the next caller in the line. So every caller must be
// ready to get the gate.

// errGotPermit ends a wait for the gate, because the store has handed over a permit. That permit is
// permitCall.got.
var errGotPermit = errors.New("a permit was handed over instead of the gate")

// awaitsPermit reports whether the store may hand a permit over to this call.
func (p *permitCall) awaitsPermit() bool {
	return p.l.slotQueuer != nil && !p.singly && !p.set.skip
}

// awaitHandOver waits until the store hands a permit over. If the call gets the permit,
// awaitHandOver returns errGotPermit, so that the wait for the gate ends.
func (p *permitCall) awaitHandOver(ctx context.Context) error {
	q := p.attempt()
	q.part, q.anySlot = false, true
	err := q.prepare(p.name)
	if err != nil {
		q.drop(err)
		return err
	}
	slot, g, err := p.l.slotQueuer.AwaitSlot(ctx, q.request, q.set.slots)
	if err != nil {
		q.drop(err)
		if !errors.Is(err, errors.ErrUnsupported) {
			err = &errorWithout{err, []error{ErrUncertain}} // the store cleans up itself
		}
		return err
	}
	q.anySlot, q.request.Name = false, driver.SlotName(p.name, slot)
	q.h.name = q.request.Name
	if err := q.takeHandOver(g); err != nil {
		q.drop(err)
		return err
	}
	if q.unannounced() {
		q.announce()
	}
	p.got = q.h
	return errGotPermit
}

// attempt returns an attempt to get a permit at once.
func (p *permitCall) attempt() *attempt {
	a := &attempt{l: p.l, ctx: p.ctx, call: p.call, set: p.set, events: p.events, start: p.start, pending: p.pending}
	a.part, a.noted, a.single, a.set.wait = true, true, false, 0
	return a
}

// beginPermitWait counts a caller that begins to wait for a permit. If as many callers wait already
// as MaxWaiters allows, it returns ErrTooManyWaiters. The caller that has the gate counts too,
// although it has left the line for the gate.
func (l *Locker) beginPermitWait(gateName string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName] >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	if l.permitWaiters == nil {
		l.permitWaiters = make(map[string]int)
	}
	l.permitWaiters[gateName]++
	l.stats.waiting++
	return nil
}

// endPermitWait ends the wait that beginPermitWait has counted.
func (l *Locker) endPermitWait(gateName string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permitWaiters[gateName]--; l.permitWaiters[gateName] == 0 {
		delete(l.permitWaiters, gateName)
	}
	l.stats.waiting--
}
