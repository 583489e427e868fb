package padlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A method says which method of the Locker takes the lock, and how.
type method struct {
	op       Op
	once     bool // never waits
	within   bool // the lock's context ends with ctx
	replaces *Key
	hidden   bool // a call above this one makes it for itself, and counts and reports the wait
}

// A call is one call of a method that takes a lock: its options, its observers, and how long it may
// wait. It makes one attempt at a lock or, with Slots, several attempts at permits.
type call struct {
	method
	l       *Locker
	ctx     context.Context // the caller's
	set     settings
	start   driver.Instant // when the call began; 0 as long as it is not needed
	outer   *hold          // the hold inside of which the lock is taken; the check finds it in ctx
	events  *eventQueue    // nil if there is no observer
	noted   bool           // EventContended was noted
	timeout bool           // the time of Wait is over
	silent  bool           // the wait ended while the store gave no reply
}

// check finds the errors in a call that takes the lock on name.
func (c *call) check(name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.outer == nil {
		c.outer = lockFrom(c.ctx)
	}
	if c.outer != nil && c.replaces == nil && c.l.heldIn(c.ctx, c.outer, name) {
		return ErrAlreadyHeld
	}
	if err := cmp.Or(c.set.wrong, c.checkToken()); err != nil || c.replaces == nil {
		return err
	}
	return c.l.checkStore(c.ctx, c.replaces)
}

// checkToken finds the errors in the option Token.
func (c *call) checkToken() error {
	g := &c.l.guarantees
	switch t := c.set.token; {
	case t.IsZero():
		return nil
	case g.RefusedIsSpent:
		return fmt.Errorf("Token: a store of the kind %q grants nothing for a token that it has refused; use one of its members: %w", g.Store, errors.ErrUnsupported)
	case g.Bound != driver.BoundToNothing && !g.Detached:
		return fmt.Errorf("Token: the locks of this store end with their %v, so no other process can repeat a call: %w", g.Bound, errors.ErrUnsupported)
	case g.Bound != driver.BoundToNothing && !c.set.detached && c.replaces == nil:
		return fmt.Errorf("Token: this lock would end with its %v; give Detached too: %w", g.Bound, errors.ErrUnsupported)
	case strings.ContainsFunc(t.Text(), func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: token has a character that is not printable ASCII, or a space", ErrInvalid)
	case c.replaces != nil && c.replaces.token.Text() == t.Text():
		return fmt.Errorf("%w: Token is the token of the key, which ends when the lock is adopted; use another one", ErrInvalid)
	default:
		return driver.CheckToken(t.Text())
	}
}

// observe delivers EventAcquiring.
//
//go:noinline
func (c *call) observe(name string) {
	c.events, c.ctx = c.l.newEvents(c.ctx, withoutSlot(name), c.mode())
}

// mode returns the mode that the caller wants.
func (c *call) mode() Mode {
	if c.replaces != nil {
		return modeOf(c.replaces.shared)
	}
	return modeOf(c.set.shared)
}

// noteContended notes that another holder has the name, once for each call. err is nil if this
// caller waits in line and has not asked the store. The caller holds mu.
func (c *call) noteContended(err error) {
	if !c.noted {
		c.noted = true
		c.l.stats.contended++
		c.events.noteCall(Event{Kind: EventContended, Err: err})
	}
}

// refuse ends a call that did not get the lock because of err. It returns the error for the caller.
func (c *call) refuse(name string, err error) error {
	err = failed(c.op, name, c.l.whoClosed(err))
	c.l.mu.Lock()
	c.l.stats.refused++
	c.l.mu.Unlock()
	if c.events != nil {
		c.announceRefusal(err)
	}
	return err
}

// announceRefusal delivers EventRefused.
func (c *call) announceRefusal(err error) {
	e := Event{Kind: EventRefused, Outcome: acquireOutcome(err, c.timeout), Err: err}
	if c.start != 0 {
		e.Took = c.l.clock.Now().Sub(c.start)
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.events.noteCall(e)
	c.l.deliverPending()
	c.events.awaitDelivery()
	c.events.detach()
}

// A wait ends when the caller's context ends, when the time of Wait is over, or when the Locker is
// closed. The functions below are for all waits: for a lock, in line or in the store, and for a
// permit.

// remaining returns how much is left of the time that Wait allows. If only the context bounds the
// wait, it returns waitForContext.
func (c *call) remaining() time.Duration {
	if c.set.wait < 0 {
		return c.set.wait
	}
	return max(0, c.set.wait-c.l.clock.Now().Sub(c.start))
}

// startTimer returns a channel that is closed when the time of Wait is over, and a function that
// stops the timer. Both are nil if only the context bounds the wait.
func (c *call) startTimer() (over chan struct{}, stop func() bool) {
	if c.set.wait < 0 {
		return nil, nil
	}
	over = make(chan struct{})
	return over, c.l.clock.AfterFunc(c.remaining(), func() { close(over) })
}

// bounded returns the context for a wait in the store. It ends when the caller's context ends, when
// the time of Wait is over, or when the Locker is closed. A request that may grant the lock has the
// caller's context instead. Otherwise the end of Wait could interrupt the request, and nobody would
// know its outcome.
func (c *call) bounded(over <-chan struct{}) (context.Context, func()) {
	if c.ctx.Done() == nil && over == nil {
		return c.l.closing, func() {}
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(c.l.closing, func() { cancel(ErrClosed) })
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

// outlived reports whether SkipIfOutlived applies, because a holder that held names plans to keep
// the name beyond the end of this wait.
func (c *call) outlived(held error) bool {
	var by *HeldError
	if !c.set.skip || !errors.As(held, &by) {
		return false
	}
	end, bounded := c.ctx.Deadline()
	if d := c.set.wait; d >= 0 {
		left := d - c.l.clock.Now().Sub(c.start)
		if byWait := time.Now().Add(left); !bounded || byWait.Before(end) {
			end, bounded = byWait, true
		}
	}
	if !bounded {
		return false
	}
	for i := range by.Holds {
		if planned := by.Holds[i].PlannedEnd; planned.IsZero() || planned.After(end) {
			return true
		}
	}
	return len(by.Holds) == 0 && (by.Until.IsZero() || by.Until.After(end))
}

// graceUnavailable is how long a store may be out of reach during a wait.
const graceUnavailable = 30 * time.Second

// tolerates reports whether a waiter goes on waiting after err. A server that restarts must not end
// all waits. So a waiter goes on until requests have failed for graceUnavailable. The caller keeps
// the time of the first failure in *downSince.
func (c *call) tolerates(err error, askedAt driver.Instant, downSince *driver.Instant) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
		return false
	}
	now := c.l.clock.Now()
	// While a store is out of reach, each request fails soon. If this request failed late, the
	// store was in reach before, and this is the first failure. Half of the grace is late: with the
	// whole, a wait of 29 s and a pause of a second between two failures would count as an outage.
	if *downSince == 0 || now.Sub(askedAt) >= graceUnavailable/2 {
		*downSince = now
	}
	return now.Sub(*downSince) < graceUnavailable
}

// waitEnded returns the error of a wait that ended. It joins these errors:
//
//   - held, which names the holder, or ErrClosed if the Locker was closed;
//   - the error of the context, if the context has ended;
//   - trouble, which is the last error of the store, or nil.
func (c *call) waitEnded(held, cause, trouble error) error {
	c.timeout, c.silent = cause == errWaitOver, trouble != nil && !errors.Is(trouble, driver.ErrQueueFull)
	err := held
	switch {
	case c.ctx.Err() != nil:
		err = fmt.Errorf("%w; %w", err, c.ctx.Err())
	case errors.Is(cause, ErrClosed):
		err = ErrClosed
	}
	if trouble != nil {
		err = fmt.Errorf("%w; %w", err, trouble)
	}
	return err
}
