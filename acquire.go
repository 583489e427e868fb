package padlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Acquire takes the lock on name and waits for it as long as ctx and Wait let
// it; without either it waits for ever. Goroutines of one Locker get their
// turn in the order in which they came.
//
// The lock is renewed until Release, unless NoRenewal is given. When ctx ends
// during the wait the error answers errors.Is for its error, and for ErrHeld
// if the name is known to be held. A store that is out of reach at the start
// is reported at once (ErrUnavailable); during the wait it is given 30 s to
// come back.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return handle(l.acquire(ctx, name, call{op: "acquire"}, opts))
}

// TryAcquire takes the lock on name if it is free, and never waits: otherwise
// the error answers errors.Is for ErrHeld. Wait is ignored.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return handle(l.acquire(ctx, name, call{op: "acquire", once: true}, opts))
}

// Do takes the lock on name as Acquire does, calls fn, waits until it has
// returned, also if the lock is lost meanwhile, and releases the lock. The
// context passed to fn ends with ctx and with the lock; FenceFrom finds the
// fence in it.
//
// Do returns what fn returned, joined with what Release returned if the lock
// did not last: then the work was not protected to its end. Errors of this
// package are of type *Error.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	h, err := l.acquire(ctx, name, call{op: "acquire", within: true}, opts)
	if err != nil {
		return err
	}
	// In a defer, so that a panic or Goexit in fn releases too.
	defer func() {
		released := h.Release()
		l.mu.Lock()
		l.attemptOver()
		l.unlock()
		switch {
		case released == nil:
		case err == nil:
			err = released
		default:
			err = &joined{err, released}
		}
	}()
	return fn(h.Context())
}

// Adopt takes over the lock that key was exported from: it swaps the live
// token for a new one with a new fence, in the same mode. The exporter is out:
// its lock ends with ErrLost when it next asks the store. If the lock is gone
// the error answers errors.Is for ErrLost; it is never taken afresh. Wait and
// Shared are ignored.
func (l *Locker) Adopt(ctx context.Context, key Key, opts ...Option) (*Lock, error) {
	if l.guarantees.Bound != driver.ToNothing {
		return nil, failed("adopt", key.name, errors.ErrUnsupported)
	}
	if key.token == "" {
		return nil, failed("adopt", key.name, fmt.Errorf("%w: key: it is empty", ErrInvalid))
	}
	return handle(l.acquire(ctx, key.name, call{op: "adopt", once: true, replaces: &key}, opts))
}

// call is which of the methods above takes a lock.
type call struct {
	op       string
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
	told    bool  // that the name is contended
	late    bool  // a request with this token may still be on its way
	open    bool  // and it cannot be told what became of it
	counted bool  // in Locker.attempts

	// For the wait:
	line      *queue        // for the name
	place     *turn         // in that line; nil outside of it
	first     bool          // at the head of the line from the start
	ended     chan struct{} // closed at the end of Wait; nil without Wait
	stopTimer func() bool
	leave     func() bool // the queue of a store in this process
}

// retries of a request whose reply was lost. Acquire is idempotent per token,
// so asking again is safe.
var retryAfter = [...]time.Duration{10 * time.Millisecond, 50 * time.Millisecond}

// acquire keeps its frame small: thousands of goroutines may wait in it.
func (l *Locker) acquire(ctx context.Context, name string, c call, opts []Option) (*hold, error) {
	h, waiting, err := l.begin(ctx, name, &c, opts)
	if waiting == nil {
		return h, err
	}
	if err := waiting.wait(); err != nil {
		return nil, waiting.refused(name, err)
	}
	return waiting.h, nil
}

// begin takes the lock at once, or says why not, or returns an attempt that
// has to wait. Only then is the attempt put on the heap.
//
//go:noinline
func (l *Locker) begin(ctx context.Context, name string, c *call, opts []Option) (*hold, *attempt, error) {
	a := attempt{l: l, ctx: ctx, call: *c, set: l.cfg.defaults}
	if len(opts) > 0 {
		a.set = a.set.with(opts)
	}
	if a.once {
		a.set.wait = 0
	}
	err := a.prepare(name)
	if err == nil {
		wait := false
		if wait, err = a.take(); wait {
			onHeap := a
			return nil, &onHeap, nil
		}
	}
	if err != nil {
		return nil, nil, a.refused(name, err)
	}
	return a.h, nil, nil
}

// prepare fills in the request and finds all that is wrong with it before the
// store is asked.
func (a *attempt) prepare(name string) error {
	l, set := a.l, &a.set
	if err := a.ctx.Err(); err != nil {
		return err
	}
	outer := lockFrom(a.ctx)
	if outer != nil && a.replaces == nil && outer.covers(l, name) {
		return ErrAlreadyHeld
	}
	if err := set.check(&l.guarantees); err != nil {
		return err
	}
	if l.unfit != nil {
		return l.unfit
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
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: set.label, Plan: set.plan()},
	}
	if a.replaces != nil {
		a.request.Shared, a.request.Replaces = a.replaces.shared, a.replaces.token
	}
	if err := a.request.Validate(&l.guarantees); err != nil {
		return err
	}
	a.h = &hold{
		locker: l, name: name, token: token, ttl: set.ttl, coolDown: set.coolDown, plan: a.request.Holder.Plan,
		label: set.label, noRenewal: set.noRenewal, shared: a.request.Shared, from: a.ctx, within: a.within,
		outer: outer, index: -1,
	}
	return nil
}

// take tries at once, unless others of this Locker wait for the name already,
// and reports whether there is to be a wait. A caller that does not wait, or
// wants to know how long the holder means to stay, asks the store in any case.
func (a *attempt) take() (wait bool, err error) {
	if a.start = a.l.now(); a.start == 0 && a.set.wait > 0 {
		a.start = a.l.clock.Now()
	}
	if a.set.wait == 0 || a.set.skip || !a.inLine {
		err := a.try(a.start)
		if err == nil || !errors.Is(err, ErrHeld) && !splitVote(err) {
			return false, err
		}
		a.contended(err)
		if a.set.wait == 0 || a.skips() {
			return false, err
		}
		a.renewToken()
		return true, nil
	}
	a.contended(nil)
	return true, nil
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
			a.doubt()
			return err
		case definite(err) && !splitVote(err):
			// Held means: not by this token. Of an earlier request, a store
			// that cannot be asked says nothing.
			a.open = a.open && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrLost)
			return err
		}
		if !definite(err) {
			a.doubt()
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

// splitVote reports that a store made of stores gave the try up since others
// had some of them, and the rest cannot be asked: it is worth another try.
func splitVote(err error) bool {
	return errors.Is(err, driver.ErrSpent) && errors.Is(err, ErrUnavailable)
}

// now is when a request is sent. A store in this process says itself from when
// its grants count, so the clock is not read for it.
func (l *Locker) now() driver.Instant {
	if l.guarantees.InProcess && l.cfg.onEvent == nil {
		return 0
	}
	return l.clock.Now()
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
	case !l.keeper.granted(a.h, sent, now, g, a.set.maxHold):
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
	if !a.within { // else Do counts until its function has returned
		l.attempts--
	}
	if l.holders != nil && a.passes() {
		l.holders[a.h.name] = a.h
		if a.h.batch == nil {
			a.h.batch = l.newBatch(now)
		}
	}
	if a.place != nil {
		a.line.held, a.line.holder = nil, a.h
		a.leaveLineLocked()
	}
	if l.cfg.onEvent != nil {
		l.note(Event{Kind: EventAcquired, Name: a.h.name, Shared: a.h.shared, Fence: a.h.fence, Took: now.Sub(a.start)})
	}
}

var (
	errTooLate         = errors.New("the lease was over before the reply came")
	errClosedMeanwhile = fmt.Errorf("%w meanwhile", ErrClosed)
)

// doubt notes that a request with this token may have been, or may yet be,
// granted to nobody.
func (a *attempt) doubt() { a.late, a.open = true, true }

// giveUpToken sends for the clean-up of what may have been granted to it.
func (a *attempt) giveUpToken() {
	if a.late {
		a.l.cleaner.add(cleanUp{name: a.request.Name, token: a.request.Token}, max(a.set.ttl, a.set.holdAtLeast))
	}
	a.late, a.open = false, false
}

// contended notes that somebody else has the name; err says who, unless this
// caller lined up without asking.
func (a *attempt) contended(err error) {
	a.l.mu.Lock()
	if !a.told {
		a.told = true
		a.l.stats.contended++
		a.l.event(EventContended, a.h, err)
	}
	if a.place != nil {
		a.line.held, a.line.holder = err, nil
	}
	a.l.unlock()
	a.held = err
}

// refused ends an attempt in vain.
func (a *attempt) refused(name string, err error) error {
	err = theirs(a.ctx, err)
	if a.open {
		err = inDoubt(err)
	}
	a.giveUpToken()
	err = failed(a.op, name, err)
	a.l.mu.Lock()
	if a.counted {
		a.l.attemptOver()
	}
	a.l.stats.refused++
	a.l.note(Event{Kind: EventRefused, Name: name, Shared: a.set.shared, Err: err})
	a.l.unlock()
	return err
}

// attemptOver tells a Close that waits for it. The caller holds mu.
func (l *Locker) attemptOver() {
	l.attempts--
	if l.drained != nil && l.attempts == 0 {
		close(l.drained)
		l.drained = nil
	}
}
