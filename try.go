package padlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// call is which of the methods above takes a lock.
type call struct {
	op       Op
	once     bool // never waits
	within   bool // the lock's context ends with ctx
	replaces *Key
}

// attempt is one call under way.
type attempt struct {
	call
	l       *Locker
	ctx     context.Context
	set     settings
	request driver.Request
	h       *hold
	start   driver.Instant
	held    error // the last *HeldError
	inLine  bool  // others of this Locker wait for the name
	told    bool  // EventContended was published
	cleanUp bool  // something may be granted, now or later, to request.Token
	unsure  bool  // and its outcome is not known
	counted bool  // in Locker.attempts
	timeout bool  // the time of Wait is over
	by      HandOver
	events  *eventQueue // nil if nobody observes

	// For the wait:
	line      *queue        // for the name
	place     *turn         // in that line; nil outside of it
	first     bool          // at the head of the line from the start
	ended     chan struct{} // closed at the end of Wait; nil without Wait
	stopTimer func() bool
	leave     func() bool // the queue of a store in this process
}

// try makes one request, again if its reply was lost; sent is now. What may
// have been granted is cleaned up when the token is given up.
func (a *attempt) try(sent driver.Instant) error {
	for i := 0; ; i++ {
		g, err := a.l.store.Acquire(a.ctx, a.request)
		if err == nil {
			err = a.granted(sent, g)
		}
		switch {
		case err == nil:
			return nil
		case err == errClosedMeanwhile:
			a.noteUnsure()
			return err
		case definite(err) && !splitVote(err):
			// ErrHeld and ErrLost also say that this token holds nothing;
			// ErrUnavailable says nothing of an earlier request.
			a.unsure = a.unsure && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrLost)
			return err
		}
		if !definite(err) {
			a.noteUnsure()
		}
		if i == len(retryAfter) || a.l.sleep(a.ctx, retryAfter[i]) != nil {
			return err
		}
		if errors.Is(err, driver.ErrSpent) {
			a.renewToken()
		}
		sent = a.l.now()
	}
}

// splitVote reports that a store made of stores gave the try up because others
// had some of them, and the rest cannot be asked. Another try may succeed.
func splitVote(err error) bool {
	return errors.Is(err, driver.ErrSpent) && errors.Is(err, ErrUnavailable)
}

// granted takes a grant over, or says why it comes too late.
func (a *attempt) granted(sent driver.Instant, g driver.Grant) error {
	if err := a.ctx.Err(); err != nil {
		return err // nobody waits for it: cleaned up as if it were uncertain
	}
	l, now := a.l, g.From
	if !l.guarantees.InProcess || now == 0 {
		now = l.clock.Now()
	}
	l.mu.Lock()
	var err error
	switch {
	case l.closed:
		err = errClosedMeanwhile
	case !l.renewer.granted(a.h, sent, now, g, a.set.maxHold):
		err = errTooLate
	default:
		a.settle(now)
	}
	l.unlock()
	return err
}

// settle ends an attempt that has the lock since now. The caller holds mu.
func (a *attempt) settle(now driver.Instant) {
	l := a.l
	l.stats.acquired++
	// Do counts until its function has returned, and a waiter to which the lock
	// is passed on until it has taken it.
	if !a.within && (a.place == nil || a.place.state != passing) {
		l.attempts--
	}
	if l.handover.holders != nil && a.passes() {
		l.handover.holders[a.h.name] = a.h
		if a.h.batch == nil {
			a.h.batch = l.newBatch(now)
		}
	}
	if a.place != nil {
		a.line.held, a.line.holder = nil, a.h
		a.leaveLineLocked()
	}
	if a.events != nil {
		a.events.holdBack = true
	}
}

// announce delivers EventAcquired. The caller of Acquire does so, even if the lock was passed on by
// another goroutine.
func (a *attempt) announce() {
	a.l.mu.Lock()
	e := Event{
		Kind: EventAcquired, Mode: modeOf(a.h.shared), Fence: a.h.fence, HandOver: a.by,
		Took: max(0, a.h.grantedAt.Sub(a.start)),
	}
	a.l.mu.Unlock()
	ctx := a.events.announce(e)
	a.l.mu.Lock()
	a.h.from = ctx
	a.l.mu.Unlock()
}

var (
	errTooLate         = errors.New("the lease was over before the reply came")
	errClosedMeanwhile = fmt.Errorf("%w meanwhile", ErrClosed)
)

// noteUnsure notes that the outcome of a request with this token is not known:
// the store may have granted it, or may yet do so.
func (a *attempt) noteUnsure() { a.cleanUp, a.unsure = true, true }

// giveUpToken begins the clean-up of what may be granted to the token.
func (a *attempt) giveUpToken() {
	if a.cleanUp {
		a.l.cleaner.add(cleanUp{name: a.request.Name, token: a.request.Token, events: a.events}, max(a.set.ttl, a.set.holdAtLeast))
	}
	a.cleanUp, a.unsure = false, false
}

// contended notes that somebody else has the name. err is nil if this caller
// stands in line and has not asked the store.
func (a *attempt) contended(err error) {
	a.l.mu.Lock()
	if !a.told {
		a.told = true
		a.l.stats.contended++
		a.events.noteCall(Event{Kind: EventContended, Err: err})
	}
	if a.place != nil {
		a.line.held, a.line.holder = err, nil
	}
	a.l.unlock()
	a.held = err
}

// refused ends an attempt that failed.
func (a *attempt) refused(name string, err error) error {
	err = callerError(a.ctx, err)
	if a.unsure {
		err = inDoubt(err)
	}
	a.giveUpToken()
	err = failed(a.op, name, err)
	a.l.mu.Lock()
	if a.counted {
		a.l.attemptOver()
	}
	a.l.stats.refused++
	a.l.mu.Unlock()
	if a.events != nil {
		a.announceRefusal(err)
	}
	return err
}

// announceRefusal delivers EventRefused.
func (a *attempt) announceRefusal(err error) {
	e := Event{Kind: EventRefused, Outcome: acquireOutcome(err, a.timeout), Err: err}
	if a.start != 0 {
		e.Took = a.l.clock.Now().Sub(a.start)
	}
	a.l.mu.Lock()
	a.events.noteCall(e)
	a.l.unlock()
	a.events.settle()
	a.events.detach()
}

// attemptOver ends what counts in attempts, and wakes a Close that waits for
// the last. The caller holds mu.
func (l *Locker) attemptOver() {
	l.attempts--
	if l.drained != nil && l.attempts == 0 {
		close(l.drained)
		l.drained = nil
	}
}

// renewToken is called when a token is spent. Request.Spent lists the last spent
// ones, so that a store made of stores does not take what is left of them for
// somebody else's hold.
func (a *attempt) renewToken() {
	a.giveUpToken()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if spent := a.request.Spent; !a.l.guarantees.InProcess {
		spent = spent[max(0, len(spent)+1-driver.MaxSpent):]
		a.request.Spent = append(slices.Clone(spent), a.request.Token) // the store may still have the old list
	}
	a.request.Token = a.l.newToken()
	a.h.token = a.request.Token
}
