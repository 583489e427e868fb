package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

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
	return a.waitEnded(cause, nil)
}

// waitEnded returns the error of a wait that ended. It joins these errors:
//
//   - a *HeldError with the holder of the name, or ErrClosed if the Locker was closed;
//   - the error of the context, if the context has ended;
//   - trouble, which is the last error of the store, or nil.
func (a *attempt) waitEnded(cause, trouble error) error {
	err := a.heldBy()
	a.timeout = cause == errWaitOver
	switch {
	case a.ctx.Err() != nil:
		err = &joined{err, a.ctx.Err()}
	case errors.Is(cause, ErrClosed):
		err = ErrClosed
	}
	if trouble != nil {
		err = &joined{err, trouble}
	}
	return err
}

// heldBy returns a *HeldError with the holder of the name if the holder is known, or else ErrHeld.
func (a *attempt) heldBy() error {
	if a.held != nil {
		return a.held
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	q := a.line
	switch {
	case q.holder == nil:
		return q.held
	case q.holder.cause != nil:
		return &HeldError{Waiters: q.waiting - 1}
	}
	hold := q.holder.report()
	return &HeldError{Holds: []Hold{hold}, Until: hold.Until, Waiters: q.waiting - 1}
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

// skips reports whether SkipIfOutlived applies, because a holder plans to keep the name beyond the
// end of this wait.
func (a *attempt) skips() bool {
	var held *HeldError
	if !a.set.skip || !errors.As(a.held, &held) {
		return false
	}
	end, bounded := a.ctx.Deadline()
	if d := a.set.wait; d >= 0 {
		left := d - a.l.clock.Now().Sub(a.start)
		if byWait := time.Now().Add(left); !bounded || byWait.Before(end) {
			end, bounded = byWait, true
		}
	}
	if !bounded {
		return false
	}
	for i := range held.Holds {
		if planned := held.Holds[i].PlannedEnd; planned.IsZero() || planned.After(end) {
			return true
		}
	}
	return len(held.Holds) == 0 && (held.Until.IsZero() || held.Until.After(end))
}

// lineUp takes the caller's place in the line of the Locker, and starts the timer of Wait.
//
//go:noinline
func (a *attempt) lineUp() error {
	if err := a.takePlace(); err != nil {
		return err
	}
	if d := a.set.wait; d >= 0 {
		ended := make(chan struct{})
		d -= a.l.clock.Now().Sub(a.start)
		a.ended, a.stopTimer = ended, a.l.clock.AfterFunc(max(0, d), func() { close(ended) })
	}
	return nil
}

func (a *attempt) takePlace() error {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[a.h.name]
	if q == nil {
		q = &queue{held: ErrHeld}
	}
	if q.waiting >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	l.queues[a.h.name] = q
	if a.held != nil {
		q.held, q.holder = a.held, nil
	}
	a.line, a.place = q, &turn{ready: make(chan struct{}, 1), a: a}
	q.waiting++
	if !a.gate { // beginPermitWait counts callers with Slots
		l.stats.waiting++
	}
	q.line = append(q.line, a.place)
	a.first = len(q.line) == 1 && !l.parkHead(q)
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

// graceUnavailable is how long a store may be out of reach during a wait.
const graceUnavailable = 30 * time.Second

// waitAsHead is called by the waiter at the head of the line. It waits until the store grants the
// lock, or until the wait is over.
func (a *attempt) waitAsHead() error {
	ctx, stop := a.bounded(a.ended)
	defer stop()
	poll := poller{l: a.l}
	var downSince driver.Instant
	var trouble error // the last error; nil if the store has replied since
	for {
		askedAt := a.l.clock.Now()
		err := a.askStore(ctx, &poll)
		switch {
		case err == nil:
			return err
		case errors.Is(err, ErrHeld):
			a.noteContended(err)
			poll.until(err)
			downSince, trouble = 0, nil
			if a.skips() {
				return a.held
			}
		case ctx.Err() != nil:
			return a.waitEnded(context.Cause(ctx), trouble)
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
// to take the lock.
func (a *attempt) askStore(ctx context.Context, poll *poller) error {
	waiter := a.l.waiter
	if waiter == nil {
		if err := a.l.sleep(ctx, poll.next()); err != nil {
			return err
		}
		return a.tryStore(a.l.sendTime())
	}
	g, err := waiter.Wait(ctx, a.request, true)
	if err != nil {
		return &errorWithout{err, []error{ErrUncertain}} // the store cleans up itself after a failed wait
	}
	// The attempt has left the store's queue, so no clean-up needs to give up its place there.
	a.cleanUp = a.unsure
	return a.takeHandOver(g)
}

// takeHandOver takes the lock after a wait in the store. g is what the store returned. If g is
// zero, nothing was handed over, but a try may succeed.
func (a *attempt) takeHandOver(g driver.Grant) error {
	switch {
	case g.TTL == 0:
		a.renewToken()
	case g.From != 0 && g.TTL > driver.MaxReservation && (g.TTL >= a.request.TTL || !a.set.noRenewal):
		// The grant is a hold, not only a reservation. If its lease is short, it is renewed soon.
		a.by = HandOverByQueue
		err := a.acceptGrant(g.From, g)
		if err != nil {
			a.noteUnsure()
		}
		return err
	}
	a.by = NoHandOver
	if g.TTL != 0 {
		a.by = HandOverByQueue
	}
	if a.mayUse(&g) {
		if used, err := a.useReservation(g); used {
			return err
		}
	}
	return a.tryStore(a.l.sendTime())
}

// mayUse reports whether this attempt may use the reservation g before it is claimed. A reservation
// has only a short lease. With some options, for example HoldAtLeast, other clients rely on the
// full lease, so mayUse returns false.
func (a *attempt) mayUse(g *driver.Grant) bool {
	l, r := a.l, &a.request
	return g.From != 0 && g.Fence != 0 && !l.guarantees.InProcess && l.guarantees.Bound == driver.ToNothing &&
		!r.Shared && a.set.holdAtLeast == 0 && r.Holder.Plan == 0 && r.FenceAbove == 0 && r.TTL > driver.MaxReservation &&
		l.cfg.passMost == 0 && !a.part && a.h.coolDown == 0
}

// useReservation takes the lock that g reserves, and sends no claim. If too little time of the
// reservation is left, useReservation returns false. Then the caller must send a claim.
func (a *attempt) useReservation(g driver.Grant) (used bool, err error) {
	a.h.unclaimed = true
	switch err = a.acceptGrant(g.From, g); err {
	case nil:
	case errTooLate:
		a.h.unclaimed = false
		return false, nil
	default:
		a.noteUnsure()
	}
	return true, err
}

// bounded returns the context for a wait in the store. It ends when the caller's context ends, when
// the time of Wait is over, or when the Locker is closed. A request that may grant the lock has the
// caller's context instead. Otherwise the end of Wait could interrupt the request, and nobody would
// know its outcome.
func (a *attempt) bounded(over <-chan struct{}) (context.Context, func()) {
	if a.ctx.Done() == nil && over == nil {
		return a.l.closing, func() {}
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	stop := context.AfterFunc(a.l.closing, func() { cancel(ErrClosed) })
	if over == nil {
		return ctx, func() { stop(); cancel(nil) }
	}
	go func() {
		select {
		case <-over:
			cancel(errWaitOver)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { stop(); cancel(nil) }
}

// tolerates reports whether a waiter goes on waiting after err. A server that restarts must not end
// all waits. So a waiter goes on until requests have failed for graceUnavailable. The caller keeps
// the time of the first failure in *downSince.
func (a *attempt) tolerates(err error, askedAt driver.Instant, downSince *driver.Instant) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
		return false
	}
	now := a.l.clock.Now()
	// While a store is out of reach, each request fails soon. If this request failed late, the
	// store was in reach before, and this is the first failure.
	if *downSince == 0 || now.Sub(askedAt) >= graceUnavailable {
		*downSince = now
	}
	return now.Sub(*downSince) < graceUnavailable
}

// continueTurn continues an attempt whose turn is ready: it takes the lock that was passed on, or
// asks the store.
func (a *attempt) continueTurn() error {
	switch a.place.state {
	case turnGiven:
		if !a.within {
			a.l.mu.Lock()
			a.l.attemptOver()
			a.l.mu.Unlock()
		}
		return nil
	case turnQueued:
		a.cleanUp = true
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
			l.wakeHead(a.h.name)
			a.request.Token, a.cleanUp = a.h.token, true
		}
		if a.events != nil { // the caller does not get this lock
			a.events.forgetHold()
		}
		return
	case turnQueued:
		a.cleanUp = true
	case turnUnsure:
		a.noteUnsure()
	}
	a.leaveLineLocked()
}
