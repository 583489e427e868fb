package padlock

import (
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// takeOrWait takes the lock on name, and waits for it if the settings allow that. The caller must
// have delivered EventAcquiring before.
func (a *attempt) takeOrWait(name string) (*hold, error) {
	err := a.prepare(name)
	if err == nil {
		wait := false
		if wait, err = a.askOnce(); wait {
			err = a.waitForLock()
		}
	}
	switch {
	case err == nil:
		if a.events != nil {
			a.announce()
		}
		return a.h, nil
	case a.part:
		return nil, a.drop(err)
	}
	return nil, a.failCall(name, err)
}

// observe delivers EventAcquiring.
//
//go:noinline
func (a *attempt) observe(name string) {
	a.events, a.ctx = a.l.newEvents(a.ctx, name, a.mode())
}

// prepare builds the request, and finds every error in the request before it is sent to the store.
func (a *attempt) prepare(name string) error {
	l, set := a.l, &a.set
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if a.outer == nil {
		a.outer = lockFrom(a.ctx)
	}
	if a.outer != nil && a.replaces == nil && !a.anySlot && a.outer.covers(l, name) {
		return ErrAlreadyHeld
	}
	if err := set.check(&l.guarantees); err != nil {
		return err
	}
	if a.replaces != nil {
		if err := l.checkStore(a.ctx, a.replaces); err != nil {
			return err
		}
	}
	if l.invalid != nil {
		return l.invalid
	}
	l.mu.Lock()
	token, closed := l.newToken(), l.closed
	a.inLine = l.queues[name] != nil || l.mayPark(name)
	if !closed {
		l.attempts++
		a.counted = true
	}
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	a.request = driver.Request{
		Name: name, Token: token, Shared: set.shared, TTL: set.ttl, AtLeast: set.holdAtLeast, FenceAbove: set.fenceAbove,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: set.label, Plan: set.plannedHold()},
	}
	if l.cfg.trace != nil {
		a.request.Holder.Trace = l.traceOf(a.ctx)
	}
	if a.replaces != nil {
		a.request.Shared, a.request.Replaces = a.replaces.shared, a.replaces.token
	}
	if a.request.Detached = l.guarantees.Bound != driver.ToNothing && (set.detached || a.replaces != nil); a.request.Detached {
		if !l.guarantees.Detached || a.request.Shared {
			return errors.ErrUnsupported
		}
	}
	if err := a.request.Validate(&l.guarantees); err != nil {
		return err
	}
	h := new(hold)
	h.locker, h.name, h.token, h.ttl, h.coolDown, h.plan = l, name, token, set.ttl, set.coolDown, a.request.Holder.Plan
	h.label, h.noRenewal, h.shared, h.from, h.within = set.label, set.noRenewal, a.request.Shared, a.ctx, a.within
	h.outer, h.index, h.events, h.detached, h.gate = a.outer, -1, a.events, a.request.Detached, a.gate
	a.h = h
	return nil
}

// A call begins with a try, or it joins a queue. A try is one request that returns at once. It is
// useless if the name is taken. So a call that will probably have to wait joins a queue without a
// try.
//
// There are two queues. The callers of one Locker wait in a line in memory. Only the first caller
// in the line joins the store's queue.
//
// The first rule that applies to a call decides how the call begins:
//
//  1. TryAcquire, and a call with SkipIfOutlived, makes a try.
//  2. A call joins the line if other callers wait there, or if a holder of this Locker may pass
//     its lock on.
//  3. A call joins the line and the store's queue if Waiter.JoinFirst returns true. The
//     store has then just handed the name to another process.
//  4. Every other call makes a try.
//
// Rule 3 is only for exclusive calls with a TTL above MaxReservation and a Wait of at least
// shortWait. HoldAtLeast, FenceAbove and Slots must not be given.
//
// JoinFirst can be wrong. If the name is free, the store grants it to the call that joins the
// queue. JoinFirst returns false if the server is out of reach. Then the call makes a try, which
// fails at once.

// shortWait is the shortest Wait for which rule 3 holds. The request that joins the store's queue
// is interrupted when the time of Wait is over. A try is not interrupted then. So a call with a
// short Wait should begin with a try.
const shortWait = time.Second

// joinsFirst reports whether the caller joins the store's queue before it has made any try.
func (a *attempt) joinsFirst() bool {
	l, r := a.l, &a.request
	return l.waiter != nil && l.cfg.maxWaiters > 0 && !a.part && !a.gate && !a.anySlot &&
		!r.Shared && a.set.holdAtLeast == 0 && r.FenceAbove == 0 && r.Replaces == "" && r.TTL > driver.MaxReservation &&
		(a.set.wait < 0 || a.set.wait >= shortWait) && l.waiter.JoinFirst(r.Name)
}

// askOnce makes the first try, and reports whether the caller has to wait. If the caller joins a
// queue without a try, askOnce sends nothing and returns true.
func (a *attempt) askOnce() (mustWait bool, err error) {
	sent := a.l.sendTime()
	if a.start == 0 { // otherwise this attempt is a part of a longer call
		if a.start = sent; sent == 0 && a.set.wait > 0 {
			a.start = a.l.clock.Now()
		}
	}
	if a.set.wait == 0 || a.set.skip || !a.inLine && !a.joinsFirst() {
		err := a.tryStore(sent)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) {
			return false, err
		}
		a.noteContended(err)
		if a.set.wait == 0 || a.skips() {
			return false, err
		}
		a.renewToken()
	} else {
		a.noteContended(nil)
	}
	if a.start == 0 && a.events != nil {
		a.start = a.l.clock.Now()
	}
	return true, nil
}
