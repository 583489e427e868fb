package padlock

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver/fast"
)

// Weight makes AcquireAll and DoAll take k of the n permits of Slots(n), all or none. It is for work of
// different sizes that shares n units: of memory, of connections, of graphics cards. A weight is 1 to
// n, and only one name may be given; otherwise the error is ErrInvalid, as it is from Acquire and Do.
//
// Without Weight, Slots lets Acquire take one permit, and AcquireAll refuses it.
//
// Each permit is a lock of its own, with a number and a fence: Locks.Slots has the numbers. The permits
// are those of Slots, so callers with a weight and callers of Acquire share the n units.
//
// Calls that wait with the same n stand in one queue, with a weight or without; see Slots. So before a
// call are served, at most, the waiting calls that had begun before it, and one call of each other process
// for it and for each waiting call before it in its own Locker. That is so from the beginning of a call
// for more than half of the n permits, and for any other one from when it has found too few. A call
// whose process or store stops for more than half a second can come to the end of the queue.
//
// A call that does not wait, or that gives SkipIfOutlived, may overtake, and two such calls may refuse
// each other. While a call is the first, it keeps the permits that it already has; if its process dies
// then, they become free with their leases.
func Weight(k int) Option {
	if k < 1 {
		k = -1 // 0 means that Weight is not given
	}
	return option(func(s *settings) { s.weight = k })
}

var errWeightSingle = fmt.Errorf("%w: Weight is for AcquireAll and DoAll", ErrInvalid)

// checkWeight finds the errors in a call with Weight.
func (t *taking) checkWeight(names []string) error {
	switch set := &t.set; {
	case set.slots == 0 || set.paths:
		return fmt.Errorf("%w: Weight needs Slots, and no Paths", ErrInvalid)
	case len(names) != 1:
		return fmt.Errorf("%w: Weight is for one name", ErrInvalid)
	case set.weight < 1 || set.weight > set.slots:
		return fmt.Errorf("%w: Weight must be 1 to %d, the number of slots", ErrInvalid, set.slots)
	}
	return t.set.wrong
}

// weighted is one call that takes several permits. It has the states of permitCall, with two gates. The
// first is that of all callers with the same n, which decides the order. The second is that of all calls
// with a weight, whatever their n: of all calls that keep some permits and wait for more, there is one at
// a time, and no two wait for each other. A call waits for the second gate only with the first one.
//
//	state     event                       what happens
//	scanning  The call has all permits.   The call is done. If it took the first gate for the scan, it
//	                                      releases the gate.
//	scanning  Too few permits are free.   The call puts its permits back. It is queueing, or refused if it
//	                                      does not wait. If it has the first gate, it keeps that.
//	queueing  The call has both gates.    The call is watching.
//	watching  The call gets a permit.     The call keeps it. With the last one, it releases the gates and
//	                                      is done.
//	watching  A gate is lost.             The call puts its permits back, and is queueing for both gates.
//	any       The wait is over.           The call puts all back, and is refused.
type weighted struct {
	*permitCall
	t *taking
}

// takePermits takes the permits of name. If it fails, t.holds may have some of them.
func (t *taking) takePermits(name string) error {
	c := &call{method: method{op: OpAcquire, within: t.within}, l: t.l, ctx: t.ctx, set: t.set}
	c.set.maxHold = 0 // see setTimes
	own := *t         // on the heap; the calls without Weight keep theirs on the stack
	w := &weighted{&permitCall{call: c, name: name}, &own}
	w.observeNext()
	err := w.check()
	if err == nil {
		err = w.run()
	}
	if err != nil {
		return c.refuse(name, callerError(t.ctx, err))
	}
	return nil
}

// observeNext delivers EventAcquiring for the next permit.
func (w *weighted) observeNext() {
	if w.l.cfg.observers != nil {
		w.ctx = w.t.withValues(w.t.ctx)
		w.observe(w.name)
	}
}

// run takes the permits: it goes through the states, until the call is done or refused.
func (w *weighted) run() error {
	l, gate := w.l, fast.SlotGate(w.name, w.set.slots)
	l.mu.Lock()
	closed := l.beginCall()
	crowded := l.permitWaiters[gate] > 0
	l.mu.Unlock()
	if closed != nil {
		return closed
	}
	defer l.endCalls(1)
	w.start = l.clock.Now()
	w.held = make([]error, w.set.slots)
	gates := &lockSet{l: l}
	if wait := w.set.wait != 0; !wait || !crowded || w.set.skip {
		err := w.look(gates)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) || !wait || w.skips() {
			go gates.giveUp(nil)
			return err
		}
	}
	l.mu.Lock()
	w.noteContended(nil)
	l.unlock()
	if err := l.beginPermitWait(gate); err != nil {
		go gates.giveUp(nil)
		return err
	}
	defer l.endPermitWait(gate)
	err := w.queue(gates)
	for err == errGateOver {
		err = w.queue(&lockSet{l: l})
	}
	return err
}

// look takes the permits if they are free. A call that is ready to wait, and wants so many that two such
// calls exclude each other, has its place in the queue from its first request on. So it looks after it
// has got the gate, and keeps that if there are too few permits.
func (w *weighted) look(gates *lockSet) error {
	overtake := w.set.wait == 0
	if !overtake && !w.set.skip && 2*w.set.weight > w.set.slots {
		gate, err := w.takeGate(fast.SlotGate(w.name, w.set.slots), 0)
		if err != nil {
			return err
		}
		gates.holds, overtake = append(gates.holds, gate), true
	}
	return w.gather(overtake)
}

// errGateOver is the error of a call that lost a gate. It never leaves the package.
var errGateOver = errors.New("a gate is over")

// queue waits for both gates, unless gates has the first one, and then for the permits.
func (w *weighted) queue(gates *lockSet) error {
	w.putBack()
	for _, name := range []string{fast.SlotGate(w.name, w.set.slots), fast.SlotGate(w.name, 0)}[len(gates.holds):] {
		gate, err := w.takeGate(name, w.remaining())
		if err != nil {
			go gates.giveUp(nil)
			return err
		}
		gates.holds = append(gates.holds, gate)
	}
	err := w.watch(gates, func() error { return w.gather(true) })
	if err != nil && gates.firstLoss() != nil && w.ctx.Err() == nil && w.l.closing.Err() == nil {
		return errGateOver
	}
	return err
}

// gather takes the permits that the call lacks, and keeps what it gets.
func (w *weighted) gather(overtake bool) error {
	for len(w.t.holds) < w.set.weight {
		if inner := w.t.innermost(); inner != nil {
			w.outer = inner
		}
		h, err := w.scan(overtake)
		if err != nil {
			return w.withoutOwn(err)
		}
		w.l.mu.Lock()
		h.atLeast = 0 // see setTimes
		w.l.unlock()
		if w.t.holds = append(w.t.holds, h); len(w.t.holds) < w.set.weight {
			w.observeNext()
		}
	}
	err := w.t.firstLoss()
	if err != nil {
		w.observeNext() // the refusal has an EventAcquiring of its own
	}
	return err
}

// withoutOwn returns a refusal by other holders only.
func (w *weighted) withoutOwn(err error) error {
	if !errors.Is(err, ErrHeld) || len(w.t.holds) == 0 {
		return err
	}
	for _, h := range w.t.holds {
		w.held[slotOf(h.name)] = nil
	}
	return w.refusal()
}

// putBack releases the permits that the call has got so far.
func (w *weighted) putBack() {
	w.t.abandon()
	w.t.holds = nil
}
