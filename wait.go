package padlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// take takes the lock on name. It waits for the lock if the settings allow that.
func (a *attempt) take(name string) (*hold, error) {
	wait, err := false, a.prepare(name)
	if err == nil {
		wait, err = a.askOnce()
	}
	if wait {
		err = a.waitForLock()
	}
	return a.done(err)
}

// waitForLock waits in line, then for the store, until the lock is granted or the wait is over. Its
// stack frame must be small, because thousands of goroutines may be in this function. Data that is
// needed only before or after the wait is on the heap, or in the frames of functions that are not
// inlined.
func (a *attempt) waitForLock() error {
	err := a.lineUp()
	if err == nil && !a.first {
		err = a.finish(a.awaitTurn())
	} else if err == nil {
		err = a.waitAsHead()
	}
	a.leaveLine(err)
	return err
}

// awaitTurn waits for the caller's turn. It returns nil when the turn has come, or else the reason
// why the wait is over.
//
//go:noinline
func (a *attempt) awaitTurn() error {
	select {
	case <-a.place.ready:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	case <-a.l.closing.Done():
		return ErrClosed
	case <-a.ended:
		return errWaitOver
	}
}

// finish takes the lock when the caller's turn has come. If cause is not nil, finish ends the wait
// with that error instead.
//
//go:noinline
func (a *attempt) finish(cause error) error {
	if cause == nil {
		return a.continueTurn()
	}
	a.withdraw()
	return a.waitEnded(a.heldBy(), cause, nil)
}

// heldBy returns a *HeldError with the holder of the name if the holder is known, or else ErrHeld.
func (a *attempt) heldBy() error {
	if a.held != nil {
		return a.held
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	ln := a.line
	if ln.holder == nil {
		return ln.held
	}
	err := &HeldError{Waiters: len(ln.turns)}
	if !a.place.gone {
		err.Waiters--
	}
	if ln.holder.cause == nil {
		hold := ln.holder.report()
		err.Holds, err.Until = []Hold{hold}, hold.Until
	}
	return err
}

// heldAfterClaims is heldBy, and says if the store is too far away to get the lock in turn. One
// late claim may be an accident.
func (a *attempt) heldAfterClaims() error {
	err := a.heldBy()
	if a.late > 1 {
		err = fmt.Errorf("%w; the lock was handed over to this caller %d times, and each claim came too late: the round trip to the store is too long", err, a.late)
	}
	return err
}

// report describes h as a store would describe it. The caller holds mu.
func (h *hold) report() Hold {
	l, wall := h.locker, time.Now()
	hold := Hold{
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
		Shared: h.shared, Since: wall.Add(h.grantedAt.Sub(l.clock.Now())),
	}
	if left := h.remaining(); left < driver.MaxTTL {
		hold.Until = wall.Add(left)
	}
	if h.plan > 0 {
		hold.PlannedEnd = hold.Since.Add(h.plan)
	}
	return hold
}

// lineUp takes the caller's place in the line of the Locker, and starts the timer of Wait.
//
//go:noinline
func (a *attempt) lineUp() error {
	if err := a.takePlace(); err != nil {
		return err
	}
	a.ended, a.stopTimer = a.startTimer()
	return nil
}

func (a *attempt) takePlace() error {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[a.h.name]
	if ln == nil {
		ln = &line{held: ErrHeld}
	}
	if len(ln.turns) >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	l.lines[a.h.name] = ln
	if a.held != nil {
		ln.held, ln.holder = a.held, nil
	}
	a.line, a.place = ln, &turn{ready: make(chan struct{}), a: a}
	if !a.hidden {
		l.stats.waiting++
	}
	ln.turns = append(ln.turns, a.place)
	a.first = len(ln.turns) == 1 && !l.parkHead(ln)
	return nil
}

// leaveLine gives up the caller's place in the line. If err is nil, the caller has the lock and has
// left the line already.
//
//go:noinline
func (a *attempt) leaveLine(err error) {
	if a.stopTimer != nil {
		a.stopTimer()
	}
	if err == nil || a.place == nil {
		return
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.leaveLineLocked()
}

// waitAsHead is called by the waiter at the head of the line. It waits until the store grants the
// lock, or until the wait is over.
func (a *attempt) waitAsHead() error {
	ctx, stop := a.bounded(a.ended)
	defer stop()
	var poll poller
	var downSince driver.Instant
	var trouble error // the last error; nil if the store has replied since
	for {
		askedAt := a.l.clock.Now()
		err := a.askStore(ctx, &poll)
		held := errors.Is(err, ErrHeld)
		if held {
			a.noteHeld(err)
			poll.until(err)
			downSince, trouble = 0, nil
		}
		switch {
		case err == nil:
			return err
		case ctx.Err() != nil:
			return a.waitEnded(a.heldAfterClaims(), context.Cause(ctx), cmp.Or(trouble, poll.full))
		case held && a.outlived(err):
			return a.held
		case held:
			poll.slowDown(ctx, a.l)
		case poll.mustTry:
		case !a.tolerates(err, askedAt, &downSince):
			return err
		default:
			trouble = err
			poll.adaptTo(err)
			a.l.sleep(ctx, poll.next())
		}
		a.renewToken()
	}
}

// askStore waits until the store hands the name over to this attempt, or until the name may be
// free. In the first case askStore takes the lock that was handed over. In the second case it tries
// to take the lock. If the store lets no more callers wait, the next call tries after a pause.
func (a *attempt) askStore(ctx context.Context, poll *poller) error {
	waiter := a.l.waiter
	if waiter == nil || poll.mustTry {
		poll.mustTry = false
		if err := a.l.sleep(ctx, poll.next()); err != nil {
			return err
		}
		return a.tryStore(a.l.clock.Now())
	}
	g, err := waiter.Wait(ctx, a.request, true)
	if poll.full = nil; errors.Is(err, driver.ErrQueueFull) || errors.Is(err, ErrHeld) {
		poll.mustTry, poll.full = true, driver.ErrQueueFull
		return poll.full
	}
	if err != nil {
		return &errorWithout{err, []error{ErrUncertain}} // the store cleans up itself after a failed wait
	}
	// The attempt has left the store's queue, so no clean-up needs to give up its place there.
	a.cleanUp = a.unsure
	return a.takeHandOver(g)
}

// continueTurn continues an attempt whose turn is ready: it takes the lock that was passed on, or
// asks the store.
func (a *attempt) continueTurn() error {
	switch a.place.state {
	case turnGiven:
		if !a.within {
			a.l.endCalls(1)
		}
		return nil
	case turnUnsure:
		a.noteUnsure()
		a.renewToken()
	case turnSpent:
		a.renewToken()
	}
	return a.waitAsHead()
}

// withdraw takes this attempt out of the line of waiters. If the attempt got the lock at the same
// instant, withdraw releases the lock, unless Close does that already.
func (a *attempt) withdraw() {
	l := a.l
	l.mu.Lock()
	defer l.unlock()
	switch a.place.state {
	case turnGiven:
		if a.h.released.CompareAndSwap(nil, releasedWell) {
			l.endHold(a.h, ErrReleased)
			a.cleanUp = true
		}
		if a.events != nil { // the caller does not get this lock
			a.events.forgetHold()
		}
		return
	case turnUnsure:
		a.noteUnsure()
	}
	a.leaveLineLocked()
}

// takeHandOver takes the lock after a wait in the store. g is what the store returned: a hold; a
// reservation, which is a short lease that a request with the same token claims; or nothing, and
// then a try with a new token may succeed. The lock is never used before a reservation is claimed.
func (a *attempt) takeHandOver(g driver.Grant) error {
	switch {
	case g.TTL == 0:
		a.by = NoHandOver
		a.renewToken()
	case g.From != 0 && g.TTL > driver.MaxReservation && (g.TTL >= a.request.TTL || !a.set.noRenewal && a.set.holdAtLeast == 0):
		// If the lease of a hold is short, it is renewed soon, but only for TTL.
		a.by = HandOverByQueue
		err := a.acceptGrant(g.From, g)
		if err != nil {
			a.noteUnsure()
		}
		return err
	default:
		a.by = HandOverByQueue
	}
	err := a.tryStore(a.l.clock.Now())
	switch {
	case g.TTL == 0:
	case errors.Is(err, ErrHeld):
		a.late++
	case errors.Is(err, ErrUnavailable):
		a.cleanUp = true // nobody claims the reservation, and it keeps the name from this caller, too
	}
	return err
}
