package padlock

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Slots lets up to n callers hold name at the same time, each with one of n permits. Lock.Slot
// returns the number of the permit, from 0 to n-1; no other caller has that number while this
// caller's lock lasts. n must be 1 to driver.MaxSlots.
//
// A permit is a lock like any other, with a lease, a fence and a holder. If a process dies, its
// permit becomes free when the lease ends. With HoldAtLeast(d), at most n callers start within d.
//
// Callers need not give the same n: each caller takes a permit whose number is below its own n. A
// caller with Slots and a caller without Slots do not exclude each other. If Slots and Shared are
// given together, the error is ErrInvalid.
//
// Callers that wait with the same n get permits in the order of arrival, on every store with
// Guarantees.FIFO. A caller that does not wait, or that gives SkipIfOutlived, may overtake the
// waiting callers: it may take a permit that has just become free.
func Slots(n int) Option {
	if n < 1 {
		n = -1 // 0 means that Slots is not given
	}
	return option(func(s *settings) { s.slots = n })
}

// permitCall is one call that takes one of n permits. The call has one of three states:
//
//   - scanning: The call tries every permit once. It does so with one request if the store is a
//     driver.SlotTaker, and otherwise from permit 0 to permit n-1.
//   - queueing: The call waits for the gate. The gate is a lock that only the first of all waiting
//     callers has.
//   - watching: The call has the gate. It tries every permit, waits until one may be free, and
//     tries again.
//
// A call begins with scanning. But if the call is ready to wait and other callers already wait, it
// begins with queueing, so that the order is kept. The transitions are:
//
//	state     event                     what happens
//	scanning  The call gets a permit.   The call is done.
//	scanning  All permits are held.     The call is queueing, or refused if it does not wait.
//	scanning  There is another error.   The call is refused.
//	queueing  The call gets the gate.   The call is watching.
//	queueing  The wait is over.         The call is refused.
//	watching  The call gets a permit.   The call releases the gate and is done.
//	watching  The wait is over.         The call releases the gate and is refused.
//	watching  The gate is lost.         The call is still watching, because only the order of callers
//	                                    depends on the gate.
//
// The gate has a short lease. So if the caller at the gate dies, the others wait for that lease
// only. The callers of this process wait for the gate in the Locker's own line.
type permitCall struct {
	call
	name string
	held []error // for each permit the last *HeldError
	poll poller
}

// beginPermit does the work of tryAtOnce for a call with Slots. It tries all permits of name in one
// step, if the store can do that and nothing else needs to be checked.
func (a *attempt) beginPermit(name string) (*hold, *attempt, error) {
	l := a.l
	if !l.takesAnySlot(&a.set) || l.guarantees.Hashed || a.set.shared || lockFrom(a.ctx) != nil {
		onHeap := *a
		return nil, &onHeap, nil
	}
	if l.cfg.observers != nil {
		a.observe(name)
	}
	a.anySlot, a.overtake = true, a.set.wait == 0
	err := driver.CheckSlots(name, a.set.slots, &l.guarantees)
	if err == nil {
		err = a.prepare(name)
	}
	if err == nil {
		sent := l.sendTime()
		a.start = sent
		err = a.tryStore(sent)
	}
	refused := errors.Is(err, ErrHeld) || splitVote(err)
	if refused {
		a.noteHeld(err)
	}
	if !refused || a.set.wait == 0 {
		h, err := a.done(name, err)
		return h, nil, err
	}
	a.drop(err)
	onHeap := *a
	return nil, &onHeap, nil
}

// takePermit takes one of the permits of name. The attempt already has the options of the call. If
// beginPermit has tried every permit, a.held is the error.
//
//go:noinline
func (a *attempt) takePermit(name string) (*hold, error) {
	p := &permitCall{call: a.call, name: name, poll: poller{l: a.l}}
	if p.l.cfg.observers != nil && p.events == nil {
		p.observe(name)
	}
	err := p.check()
	if err == nil {
		var h *hold
		if h, err = p.runStates(a.held); err == nil {
			return h, nil
		}
	}
	return nil, p.refuse(name, callerError(p.ctx, err))
}

// check finds the errors in the call, before anything is sent to the store.
func (p *permitCall) check() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.set.shared {
		return fmt.Errorf("%w: Slots and Shared cannot be combined", ErrInvalid)
	}
	if err := driver.CheckSlots(p.name, p.set.slots, &p.l.guarantees); err != nil {
		return err
	}
	for h := lockFrom(p.ctx); h != nil; h = h.outer {
		if base, _, ok := driver.SplitSlot(h.name); ok && base == p.name && h.locker == p.l && h.endCause() == nil {
			return ErrAlreadyHeld
		}
	}
	if err := p.set.check(&p.l.guarantees); err != nil {
		return err
	}
	return p.checkPlaces()
}

// checkPlaces returns ErrInvalid if the gate and one of the permits are the same lock. In some
// stores two names can share one lock. The caller that has the gate waits for a permit, so it would
// wait for itself.
func (p *permitCall) checkPlaces() error {
	where := p.l.places
	if where == nil || !p.l.guarantees.Hashed {
		return nil
	}
	gate, err := where.Location(driver.SlotGate(p.name, p.set.slots))
	for i := 0; i < p.set.slots && err == nil; i++ {
		var place string
		if place, err = where.Location(driver.SlotName(p.name, i)); err == nil && place == gate {
			return fmt.Errorf("%w: permit %d and the callers that wait for it share one lock in this store; choose another name", ErrInvalid, i)
		}
	}
	return err
}

// runStates takes a permit. It goes through the states that the comment at permitCall describes,
// until the call is done or refused. triedErr is nil, or the error of beginPermit after it has
// tried every permit.
func (p *permitCall) runStates(triedErr error) (*hold, error) {
	l := p.l
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.attempts++ // so that Close waits for this call
	crowded := l.permitWaiters[driver.SlotGate(p.name, p.set.slots)] > 0
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.attemptOver()
		l.mu.Unlock()
	}()
	if p.start == 0 {
		p.start = l.clock.Now()
	}
	p.held = make([]error, p.set.slots)
	if wait := p.set.wait != 0; triedErr != nil || !wait || !crowded || p.set.skip {
		h, err := p.firstScan(triedErr)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) || !wait || p.skips() {
			return h, err
		}
	}
	l.mu.Lock()
	p.noteContended(nil)
	l.unlock()
	return p.queueForPermit()
}

// firstScan makes the first scan. If triedErr is not nil, beginPermit has already tried every
// permit. Then firstScan only returns a *HeldError made from triedErr.
func (p *permitCall) firstScan(triedErr error) (*hold, error) {
	if triedErr != nil {
		return nil, p.heldAll(triedErr)
	}
	return p.scan(p.set.wait == 0)
}
