package padlock

import (
	"context"
	"errors"
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
	a := attempt{l: l, ctx: ctx, op: "acquire"}
	return a.run(name, opts)
}

// TryAcquire takes the lock on name if it is free, and never waits: otherwise
// the error answers errors.Is for ErrHeld. Wait is ignored.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	a := attempt{l: l, ctx: ctx, op: "acquire", once: true}
	return a.run(name, opts)
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
	a := attempt{l: l, ctx: ctx, op: "acquire", within: true}
	h, err := a.run(name, opts)
	if err != nil {
		return err
	}
	// In a defer, so that a panic or Goexit in fn releases too.
	defer func() {
		switch released := h.Release(); {
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
	a := attempt{l: l, ctx: ctx, op: "adopt", once: true, replaces: key}
	return a.run(key.name, opts)
}

// attempt is one call that takes a lock.
type attempt struct {
	l        *Locker
	ctx      context.Context
	op       string
	once     bool // never waits
	within   bool // the lock's context ends with ctx
	replaces Key

	h     *Lock
	held  error // the last *HeldError
	start driver.Instant
}

// retries of a request whose reply was lost. Acquire is idempotent per token,
// so asking again is safe.
var retryAfter = [...]time.Duration{10 * time.Millisecond, 50 * time.Millisecond}

func (a *attempt) run(name string, opts []Option) (*Lock, error) {
	l := a.l
	h := &Lock{locker: l, set: l.cfg.defaults, from: a.ctx, within: a.within, index: -1}
	for _, o := range opts {
		o.apply(&h.set)
	}
	if a.once {
		h.set.wait = 0
	}
	a.h = h
	err := a.prepare(name)
	if err == nil {
		a.start = l.clock.Now()
		err = a.take()
	}
	if err != nil {
		return nil, a.refused(name, err)
	}
	return h, nil
}

// prepare fills in the request and finds all that is wrong with it before the
// store is asked.
func (a *attempt) prepare(name string) error {
	l, h := a.l, a.h
	set := &h.set
	h.request = driver.Request{
		Name: name, Shared: set.shared, TTL: set.ttl, AtLeast: set.holdAtLeast, FenceAbove: set.fenceAbove,
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: set.label, Plan: set.plan()},
	}
	if a.replaces.token != "" {
		h.request.Shared, h.request.Replaces = a.replaces.shared, a.replaces.token
	}
	if err := a.ctx.Err(); err != nil {
		return err
	}
	h.outer = lockFrom(a.ctx)
	if h.outer != nil && l.alreadyHeld(a.ctx, name) {
		return ErrAlreadyHeld
	}
	l.mu.Lock()
	closed := l.closed
	h.request.Token = l.newToken()
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if err := set.check(&l.guarantees); err != nil {
		return err
	}
	return h.request.Validate(&l.guarantees)
}

// take tries at once, unless others of this Locker wait for the name already;
// then it queues. A caller that does not wait, or wants to know how long the
// holder means to stay, asks the store in any case.
func (a *attempt) take() error {
	set := &a.h.set
	if set.wait == 0 || set.skip || !a.l.hasQueue(a.h.request.Name) {
		err := a.try()
		if err == nil || !errors.Is(err, ErrHeld) {
			return err
		}
		a.contended(err)
		if set.wait == 0 {
			return err
		}
	}
	return a.queue()
}

// try makes one request, again if its reply was lost. An error that leaves it
// open whether the lock was granted answers errors.Is for ErrUncertain, and
// the clean-up has begun.
func (a *attempt) try() error {
	for i := 0; ; i++ {
		sent := a.l.clock.Now()
		g, err := a.l.store.Acquire(a.ctx, a.h.request)
		if err == nil {
			err = a.granted(sent, g)
		}
		if err == nil || definite(err) {
			return err
		}
		if i == len(retryAfter) || a.ctx.Err() != nil || a.l.sleep(a.ctx, retryAfter[i]) != nil {
			return a.uncertain(err)
		}
	}
}

// granted takes a grant over, or says why it comes too late.
func (a *attempt) granted(sent driver.Instant, g driver.Grant) error {
	l := a.l
	if err := a.ctx.Err(); err != nil {
		return err // nobody waits for it: cleaned up as if it were uncertain
	}
	now := l.clock.Now()
	l.mu.Lock()
	defer l.unlock()
	if l.closed {
		return errClosedMeanwhile
	}
	if !l.keeper.granted(a.h, sent, now, g) {
		return errTooLate
	}
	l.stats.acquired++
	if l.cfg.onEvent != nil {
		l.note(Event{Kind: EventAcquired, Name: a.h.request.Name, Shared: a.h.request.Shared, Fence: g.Fence, Took: now.Sub(a.start)})
	}
	return nil
}

var (
	errTooLate         = errors.New("the lease was over before the reply came")
	errClosedMeanwhile = errors.New("the Locker was closed meanwhile")
)

// uncertain sends for the clean-up of what may have been granted.
func (a *attempt) uncertain(err error) error {
	a.l.cleaner.add(cleanUp{name: a.h.request.Name, token: a.h.request.Token}, max(a.h.set.ttl, a.h.set.holdAtLeast))
	switch {
	case errors.Is(err, ErrUncertain):
		return err
	case err == errClosedMeanwhile:
		return &joined{ErrClosed, ErrUncertain}
	}
	return &joined{ErrUncertain, err}
}

// contended notes that somebody else has the name.
func (a *attempt) contended(err error) {
	if a.held == nil {
		a.l.mu.Lock()
		a.l.stats.contended++
		a.l.event(EventContended, a.h, err)
		a.l.unlock()
	}
	a.held = err
}

func (a *attempt) refused(name string, err error) error {
	err = failed(a.op, name, err)
	a.l.mu.Lock()
	a.l.stats.refused++
	a.l.note(Event{Kind: EventRefused, Name: name, Shared: a.h.set.shared, Err: err})
	a.l.unlock()
	return err
}
