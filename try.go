package padlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// call says which method takes the lock, and how.
type call struct {
	op       Op
	once     bool // never waits
	within   bool // the lock's context ends with ctx
	part     bool // a request of a permitCall; only the permitCall is counted and reported
	gate     bool // takes the gate of a name with slots; see permitCall
	anySlot  bool // takes any permit of a name with slots
	overtake bool // with anySlot: may overtake callers that wait for the gate
	single   bool // returns one Lock
	replaces *Key
}

// attempt is one call under way.
type attempt struct {
	call
	l       *Locker
	ctx     context.Context
	set     settings
	outer   *hold // the hold inside of which this one is taken; prepare finds it in ctx if it is nil
	request driver.Request
	h       *hold
	start   driver.Instant
	held    error       // the last *HeldError
	inLine  bool        // the call joins the line at once, because others wait there or a holder may pass its lock on
	noted   bool        // EventContended was noted
	cleanUp bool        // the store may have granted something to request.Token, or may grant it later
	unsure  bool        // the outcome of a request with request.Token is not known
	counted bool        // Locker.attempts counts this attempt
	timeout bool        // the time of Wait is over
	by      HandOver    // how the lock came from the previous holder
	events  *eventQueue // nil if there is no observer
	handle  *Lock       // the Lock that the caller gets; nil until observers know the hold

	// For the wait:
	line      *queue        // the queue of the name
	place     *turn         // the caller's place in line; nil before lineUp
	first     bool          // the attempt was at the head of the line from the start
	ended     chan struct{} // closed when the wait must end; nil without the option Wait
	stopTimer func() bool
}

// tryStore asks the store once, and repeats the request if its reply was lost. The caller passes
// the present time as sentAt. If tryStore fails without a clear reply, the store may have granted
// the lock. Then giveUpToken begins a clean-up, which releases that lock.
func (a *attempt) tryStore(sentAt driver.Instant) error {
	for i := 0; ; i++ {
		g, err := a.sendRequest()
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
		if i == len(retryAfter) || a.l.sleep(a.ctx, retryAfter[i]) != nil {
			return err
		}
		if errors.Is(err, driver.ErrSpent) {
			a.renewToken()
		}
		sentAt = a.l.sendTime()
	}
}

// sendRequest sends the request to the store.
func (a *attempt) sendRequest() (driver.Grant, error) {
	if !a.anySlot {
		return a.l.store.Acquire(a.ctx, a.request)
	}
	a.h.name = a.request.Name
	slot, g, err := a.l.slotTaker.AcquireSlot(a.ctx, a.request, a.set.slots, a.overtake)
	if err == nil {
		a.h.name = driver.SlotName(a.request.Name, slot)
	}
	return g, err
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
	l, now := a.l, g.From
	if !l.guarantees.InProcess || now == 0 {
		now = l.clock.Now()
	}
	l.mu.Lock()
	err := l.checkLease(a.h.detached, &g)
	switch {
	case l.closed:
		err = errClosedMeanwhile
	case err != nil:
	case !l.renewer.recordGrant(a.h, sent, now, g, a.set.maxHold):
		err = errTooLate
	default:
		a.settle(now)
	}
	l.unlock()
	return err
}

// announce delivers EventAcquired. The goroutine that called Acquire calls announce. If another
// goroutine passes a lock on to this one, it does not call announce.
func (a *attempt) announce() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if a.single {
		a.handle = a.h.watchedHandle()
	}
	e := Event{Kind: EventAcquired, Mode: modeOf(a.h.shared), Fence: a.h.fence, HandOver: a.by}
	if a.start != 0 {
		e.Took = max(0, a.h.grantedAt.Sub(a.start))
	}
	a.h.from = a.events.announce(&e)
}

var (
	errTooLate         = errors.New("the lease was over before the reply came")
	errClosedMeanwhile = fmt.Errorf("%w meanwhile", ErrClosed)
)

// noteUnsure notes that the outcome of a request with this token is not known. The store may have
// granted the request, or may grant it later.
func (a *attempt) noteUnsure() { a.cleanUp, a.unsure = true, true }

// giveUpToken begins a clean-up if the store may have granted something to the token.
func (a *attempt) giveUpToken() {
	if a.cleanUp {
		what := cleanUp{name: a.h.name, token: a.request.Token, acquire: true, events: a.events}
		if a.anySlot && a.h.name == a.request.Name {
			what.permits = a.set.slots
		}
		a.l.cleaner.add(what, max(a.set.ttl, a.set.holdAtLeast))
	}
	a.cleanUp, a.unsure = false, false
}

// noteContended notes that another holder has the name. err is nil if this caller waits in line and
// has not asked the store.
func (a *attempt) noteContended(err error) {
	a.l.mu.Lock()
	if !a.noted {
		a.noted = true
		a.l.stats.contended++
		a.events.noteCall(Event{Kind: EventContended, Err: err})
	}
	if a.place != nil {
		a.line.held, a.line.holder = err, nil
	}
	a.l.unlock()
	a.held = err
}

// drop ends an attempt that failed, and returns its error.
func (a *attempt) drop(err error) error {
	err = callerError(a.ctx, err)
	if a.unsure {
		err = withUncertain(err)
	}
	a.giveUpToken()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if a.counted {
		a.l.attemptOver()
	}
	return err
}

// failCall ends a call that did not get the lock, and returns the error for the caller.
func (a *attempt) failCall(name string, err error) error {
	err = failed(a.op, name, a.drop(err))
	a.l.mu.Lock()
	a.l.stats.refused++
	a.l.mu.Unlock()
	if a.events != nil {
		a.announceRefusal(err)
	}
	return err
}

// mode returns the mode that the caller wants.
func (a *attempt) mode() Mode {
	if a.replaces != nil {
		return modeOf(a.replaces.shared)
	}
	return modeOf(a.set.shared)
}

// announceRefusal delivers EventRefused.
func (a *attempt) announceRefusal(err error) {
	e := Event{Kind: EventRefused, Outcome: acquireOutcome(err, a.timeout), Err: err}
	if a.start != 0 {
		e.Took = a.l.clock.Now().Sub(a.start)
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.events.noteCall(e)
	a.l.deliverPending()
	a.events.settle()
	a.events.detach()
}

// renewToken gives the attempt a new token, and adds the old one to Request.Spent, which lists the
// last few tokens of the attempt. (A store in this process does not need that list.) If a composite
// store (quorum) finds a hold with one of these tokens, it knows that the hold is left over from an
// earlier try of the same caller.
func (a *attempt) renewToken() {
	a.giveUpToken()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if spent := a.request.Spent; !a.l.guarantees.InProcess {
		spent = spent[max(0, len(spent)+1-driver.MaxSpent):]
		a.request.Spent = append(slices.Clone(spent), a.request.Token) // the store may still use the old slice
	}
	a.request.Token = a.l.newToken()
	a.h.token = a.request.Token
}
