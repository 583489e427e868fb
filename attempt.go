package padlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// attempt is one attempt of a call to take one lock: with one token at a time, and with one request
// at a time, whose outcome may remain unknown.
type attempt struct {
	call
	last    bool // does not repeat a request without a reply
	request driver.Request
	taker   taker // sends the request; the store, if the caller gives none
	permits int   // the request takes any of so many permits; 0 if it takes one lock
	h       *hold
	held    error    // the last *HeldError
	inLine  bool     // the call joins the line at once, because others wait there or a holder may pass its lock on
	cleanUp bool     // the store may have granted something to the token, or may grant it later
	unsure  bool     // the outcome of a request with the token is not known
	counted bool     // Locker.calls counts this attempt
	by      HandOver // how the lock came from the previous holder
	late    int      // how many claims of a reservation came too late

	// For the wait:
	line      *line         // the line of the name
	place     *turn         // the caller's place in line; nil before lineUp
	first     bool          // the attempt was at the head of the line from the start
	ended     chan struct{} // closed when the wait must end; nil without the option Wait
	stopTimer func() bool
}

// taker sends the request of an attempt.
type taker interface {
	Acquire(ctx context.Context, r driver.Request) (driver.Grant, error)
}

// prepare builds the request, and finds every error in it before it is sent to the store.
// call.check finds the errors in the call.
func (a *attempt) prepare(name string) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	l, set := a.l, &a.set
	l.mu.Lock()
	token := a.newToken()
	a.inLine = l.lines[name] != nil || l.handover.holders[name] != nil
	closed := l.beginCall()
	a.counted = closed == nil
	l.mu.Unlock()
	if closed != nil {
		return closed
	}
	a.request = driver.Request{
		Name: name, Token: token, Shared: set.shared, TTL: set.ttl, FenceAbove: set.fenceAbove,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: set.label, Plan: set.plan},
	}
	if l.cfg.trace != nil {
		a.request.Holder.Trace = l.traceOf(a.ctx)
	}
	if a.replaces != nil {
		a.request.Shared, a.request.Replaces = a.replaces.shared, a.replaces.token
	}
	a.request.Detached = l.guarantees.Bound != driver.BoundToNothing && (set.detached || a.replaces != nil)
	if a.request.Detached && !l.guarantees.Detached {
		return errors.ErrUnsupported
	}
	if err := a.request.Validate(&l.guarantees); err != nil {
		return err
	}
	a.request.TTL = set.firstLease(&l.guarantees)
	h := new(hold)
	h.locker, h.name, h.token, h.outer, h.index, h.events = l, name, token, a.outer, -1, a.events
	h.terms = terms{set.ttl, set.coolDown, a.request.Holder.Plan, set.label, set.noRenewal, a.request.Detached}
	h.shared, h.from, h.within, h.hidden, h.atLeast = a.request.Shared, a.ctx, a.within, a.hidden, set.holdAtLeast
	a.h = h
	if a.taker == nil {
		a.taker = l.store
	}
	return nil
}

// A call begins with a try, or it joins the line. A try is one request that returns at once. It is
// useless if the name is taken. So a call that will probably have to wait joins the line without a
// try.
//
// The callers of one Locker wait in a line in memory. Only the first caller in the line joins the
// store's queue.
//
// The first rule that applies to a call decides how the call begins:
//
//  1. TryAcquire, and a call with SkipIfOutlived, makes a try.
//  2. A call joins the line if other callers wait there, or if this Locker holds the name and can
//     pass locks on.
//  3. Every other call makes a try.

// askOnce makes the first try, and reports whether the caller has to wait. If the caller joins the
// line without a try, askOnce sends nothing and returns true.
func (a *attempt) askOnce() (mustWait bool, err error) {
	now := a.l.clock.Now()
	if a.start == 0 { // otherwise this attempt is a part of a longer call
		a.start = now
	}
	if a.set.wait == 0 || a.set.skip || !a.inLine {
		err := a.tryStore(now)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) {
			return false, err
		}
		a.noteHeld(err)
		if a.set.wait == 0 || a.outlived(err) {
			return false, err
		}
		a.renewToken()
	} else {
		a.noteHeld(nil)
	}
	return true, nil
}

// tryStore asks the store once, and repeats the request if its reply was lost. The caller passes
// the present time as sentAt. If tryStore fails without a clear reply, the store may have granted
// the lock. Then giveUpToken begins a clean-up, which releases that lock.
func (a *attempt) tryStore(sentAt driver.Instant) error {
	for i := 0; ; i++ {
		g, err := a.taker.Acquire(a.ctx, a.request)
		if err == nil {
			err = a.acceptGrant(sentAt, g)
		}
		switch {
		case err == nil:
			return nil
		case err == errClosedMeanwhile:
			a.noteUnsure()
			return err
		case definite(err) && !splitVote(err):
			// ErrHeld and ErrLost also mean that this token holds nothing. ErrUnavailable does not
			// say what became of an earlier request.
			a.unsure = a.unsure && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrLost)
			return err
		}
		if !definite(err) {
			a.noteUnsure()
		}
		if i == len(retryAfter) || a.last {
			return err
		}
		if ended := a.l.sleep(a.ctx, retryAfter[i]); ended != nil {
			return fmt.Errorf("%w; %w", err, ended)
		}
		if errors.Is(err, driver.ErrSpent) {
			a.renewToken()
		}
		sentAt = a.l.clock.Now()
	}
}

// A quorum is a store made of several member stores. splitVote reports whether err is the error of
// a quorum in which no caller has a majority: other callers held the lock at some of the members,
// and the remaining members could not be reached. Another try may succeed.
func splitVote(err error) bool {
	return errors.Is(err, driver.ErrSpent) && errors.Is(err, ErrUnavailable)
}

// acceptGrant takes over a grant, or returns the reason why the grant comes too late.
func (a *attempt) acceptGrant(sent driver.Instant, g driver.Grant) error {
	if err := a.ctx.Err(); err != nil {
		return err // the caller no longer waits; the grant is cleaned up like an uncertain one
	}
	l, now := a.l, a.l.clock.Now()
	l.mu.Lock()
	err := l.checkLease(a.h.detached, &g)
	switch {
	case l.closed:
		err = errClosedMeanwhile
	case err != nil:
	case g.Shared && !a.request.Shared && a.replaces == nil:
		err = errSharedToken
	case !l.renewer.recordGrant(a.h, sent, now, g, a.set.maxHold):
		err = errTooLate
	default:
		a.complete(now)
	}
	l.unlock()
	return err
}

// complete completes an attempt that has just got the lock. The caller holds mu.
func (a *attempt) complete(now driver.Instant) {
	l := a.l
	if a.hidden {
		l.renewer.hidden++
	} else {
		l.stats.acquired++
	}
	// A call of Do ends when its function has returned. If the lock is passed on to a waiter, the
	// call of the waiter ends when it has taken the lock.
	if !a.within && (a.place == nil || a.place.state != turnPassing) {
		l.calls.end()
	}
	if l.handover.holders != nil && !a.h.shared {
		l.handover.holders[a.h.name] = a.h
	}
	if a.unsure && a.set.token.IsZero() {
		late := a.cleanUpOf(a.request.Name)
		a.h.late = &late
	}
	if a.place != nil {
		a.line.held, a.line.holder = nil, a.h
		a.leaveLineLocked()
	}
	if a.events != nil {
		a.events.paused = true // announce delivers EventAcquired, and then the other events of the hold
	}
}

var (
	errTooLate         = errors.New("the lease was over before the reply came")
	errClosedMeanwhile = fmt.Errorf("%w meanwhile", ErrClosed)
	errSharedToken     = fmt.Errorf("%w: the token has a shared lock on this name, and cannot take it without Shared", ErrInvalid)
)

// done ends the attempt. err is nil if it has the lock.
func (a *attempt) done(err error) (*hold, error) {
	if err != nil {
		return nil, a.drop(err)
	}
	if a.events != nil {
		a.announce()
	}
	return a.h, nil
}

// announce delivers EventAcquired. The goroutine that called Acquire calls announce. If another
// goroutine passes a lock on to this one, it does not call announce.
func (a *attempt) announce() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	e := Event{Kind: EventAcquired, Mode: modeOf(a.h.shared), Fence: a.h.fence, HandOver: a.by}
	e.Took = max(0, a.h.grantedAt.Sub(a.start))
	a.h.from = a.events.announce(&e)
}

// drop ends an attempt that failed, and returns its error.
func (a *attempt) drop(err error) error {
	err = callerError(a.ctx, err)
	if a.unsure || a.cleanUp && !a.set.token.IsZero() { // with Token there is no clean-up
		err = withUncertain(err)
	}
	a.giveUpToken()
	if a.counted {
		a.l.endCalls(1)
	}
	return err
}

// noteHeld notes that another holder has the name; see noteContended.
func (a *attempt) noteHeld(err error) {
	a.l.mu.Lock()
	a.noteContended(err)
	if a.place != nil {
		a.line.held, a.line.holder = err, nil
	}
	a.l.unlock()
	a.held = err
}

// noteUnsure notes that the outcome of a request with this token is not known. The store may have
// granted the request, or may grant it later.
func (a *attempt) noteUnsure() { a.cleanUp, a.unsure = true, true }

// giveUpToken begins a clean-up if the store may have granted something to the token. With Token it
// does not: a repeat of the call, perhaps in another process, may have the lock now.
func (a *attempt) giveUpToken() {
	if a.cleanUp && a.set.token.IsZero() {
		a.l.cleaner.add(a.cleanUpOf(a.h.name), a.request.TTL)
	}
	a.cleanUp, a.unsure = false, false
}

// cleanUpOf returns the clean-up that releases the lock on name, or any permit of it, if a request
// of this attempt has taken it.
func (a *attempt) cleanUpOf(name string) cleanUp {
	what := cleanUp{name: name, token: a.h.token, acquire: true, events: a.events}
	if name == a.request.Name {
		what.permits = a.permits
	}
	return what
}

// newToken returns the first token of the attempt.
func (a *attempt) newToken() driver.Token {
	if !a.set.token.IsZero() {
		return a.set.token
	}
	return driver.TokenOf(newToken())
}

// renewToken gives the attempt a new token, and adds the old one to Request.Spent, which lists the
// last few tokens of the attempt. (A store in this process does not need that list.) If a composite
// store (quorum) finds a hold with one of these tokens, it knows that the hold is left over from an
// earlier try of the same caller. With Token, the attempt keeps its token.
func (a *attempt) renewToken() {
	if !a.set.token.IsZero() {
		return
	}
	a.giveUpToken()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if !a.l.guarantees.InProcess {
		spent := a.request.Spent[max(0, len(a.request.Spent)+1-driver.MaxSpent):]
		a.request.Spent = append(slices.Clip(spent), a.h.token) // a copy, since a request under way has the old list
	}
	a.h.token = driver.TokenOf(newToken())
	a.request.Token = a.h.token
}
