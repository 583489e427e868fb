package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// queue is the line of goroutines of one Locker that wait for one name. Only
// its head talks to the store: a thousand waiters here are one waiter there.
type queue struct {
	line []*turn // line[0] is the head; guarded by Locker.mu
	gone int     // places in line whose owner gave up
}

// turn is a place in a queue.
type turn struct {
	ready chan struct{} // closed when it is at the head; nil for who comes first
	gone  bool
}

// graceUnavailable is how long a store that was reached before may be out of
// reach while somebody waits.
const graceUnavailable = 30 * time.Second

// queue waits in line, then for the store, until the lock is granted or the
// wait is over.
func (a *attempt) queue() error {
	if a.skips() {
		return a.held
	}
	var over chan struct{} // closed at the end of Wait; nil blocks for ever
	if d := a.set.wait; d >= 0 {
		over = make(chan struct{})
		d -= a.l.clock.Now().Sub(a.start)
		defer a.l.clock.AfterFunc(max(0, d), func() { close(over) })()
	}
	name := a.h.name
	t, err := a.l.lineUp(name)
	if err != nil {
		return err
	}
	a.place = t
	defer a.leaveLine()
	if t.ready != nil {
		select {
		case <-t.ready:
		case <-a.ctx.Done():
			return a.over(a.ctx.Err())
		case <-a.l.closing.Done():
			return ErrClosed
		case <-over:
			return a.over(errWaitOver)
		}
	}
	ctx, stop := a.bounded(over)
	defer stop()
	return a.head(ctx)
}

// bounded returns the context of the wait in the store: it ends with ctx, with
// Wait, and with the Locker. Requests that may grant the lock are sent with
// ctx alone, so that the end of Wait does not leave their outcome open.
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

// head is at the head of the line: it waits for the store and claims.
func (a *attempt) head(ctx context.Context) error {
	poll := poller{l: a.l}
	waiter, _ := a.l.store.(driver.Waiter)
	var downSince driver.Instant
	for {
		err := a.turn(ctx, &waiter, &poll)
		switch {
		case err == nil || errors.Is(err, ErrUncertain):
			return err
		case errors.Is(err, ErrHeld):
			a.contended(err)
			poll.until(err)
			downSince = 0
			if a.skips() {
				return a.held
			}
		case ctx.Err() != nil:
			return a.over(context.Cause(ctx))
		case !a.tolerates(err, &downSince):
			return err
		case a.l.sleep(ctx, poll.next()) != nil:
			return a.over(context.Cause(ctx), err)
		}
		a.renewToken()
	}
}

// turn waits until the store hands the name over or says that it is worth
// trying, and then takes it.
func (a *attempt) turn(ctx context.Context, waiter *driver.Waiter, poll *poller) error {
	if *waiter == nil {
		if err := a.l.sleep(ctx, poll.next()); err != nil {
			return err
		}
		return a.try(a.l.now())
	}
	g, err := (*waiter).Wait(ctx, a.request, true)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		*waiter = nil
		return a.turn(ctx, waiter, poll)
	case err != nil:
		return &waitError{err}
	case g.TTL == 0: // worth trying
		a.renewToken()
	case a.l.guarantees.InProcess: // nothing to claim
		if err := a.granted(0, g); err != nil {
			return a.uncertain(err)
		}
		return nil
	}
	return a.try(a.l.now())
}

// waitError hides from errors.Is that a wait's end in the store was uncertain:
// the store cleans up after a wait itself.
type waitError struct{ err error }

func (e *waitError) Error() string { return e.err.Error() }

func (e *waitError) Is(target error) bool {
	return target != ErrUncertain && errors.Is(e.err, target)
}

// renewToken is called when a token is spent.
func (a *attempt) renewToken() {
	a.l.mu.Lock()
	a.request.Token = a.l.newToken()
	a.h.token = a.request.Token
	a.l.mu.Unlock()
}

// tolerates reports whether a waiter goes on after a failure that is not its
// own: a server that restarts must not send a queue home.
func (a *attempt) tolerates(err error, since *driver.Instant) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
		return false
	}
	now := a.l.clock.Now()
	if *since == 0 {
		*since = now
	}
	return now.Sub(*since) < graceUnavailable
}

// over says why the wait ended: what held the name, the context's error if it
// was that, and what else went wrong.
func (a *attempt) over(cause error, also ...error) error {
	err := a.held
	if err == nil {
		err = ErrHeld // by whoever is ahead in the line
	}
	switch {
	case a.ctx.Err() != nil:
		err = &joined{err, a.ctx.Err()}
	case errors.Is(cause, ErrClosed):
		err = ErrClosed
	}
	for _, e := range also {
		err = &joined{err, e}
	}
	return err
}

// skips reports whether SkipIfOutlived applies: somebody in the way means to
// stay beyond the end of this wait.
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

// lineUp takes a place in the line for name.
func (l *Locker) lineUp(name string) (*turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[name]
	if q == nil {
		q = &queue{}
		l.queues[name] = q
	}
	if len(q.line)-q.gone >= l.cfg.maxWaiters {
		if len(q.line) == 0 {
			delete(l.queues, name)
		}
		return nil, ErrTooManyWaiters
	}
	t := &turn{}
	if len(q.line) > 0 && !l.guarantees.InProcess {
		t.ready = make(chan struct{})
	}
	q.line = append(q.line, t)
	l.stats.waiting++
	return t, nil
}

// leaveLine gives the caller's place up, if the grant has not done so.
func (a *attempt) leaveLine() {
	if a.place == nil {
		return
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.l.leaveLine(a.h.name, a.place)
	a.place = nil
}

// leaveLine gives the place t up; if it was the head, the next is called. The
// caller holds mu.
func (l *Locker) leaveLine(name string, t *turn) {
	l.stats.waiting--
	q := l.queues[name]
	t.gone = true
	if q.line[0] != t {
		q.gone++
		return
	}
	q.line[0] = nil
	q.line = q.line[1:]
	for len(q.line) > 0 && q.line[0].gone {
		q.line[0] = nil
		q.line = q.line[1:]
		q.gone--
	}
	if len(q.line) == 0 {
		delete(l.queues, name)
		return
	}
	if next := q.line[0].ready; next != nil {
		close(next)
	}
}

// poller spaces out the tries at a store that wakes nobody: decorrelated
// jitter from 10 ms to 1 s, and not far beyond the end of the holder's lease.
type poller struct {
	l    *Locker
	last time.Duration
	end  time.Time
}

const (
	pollMin = 10 * time.Millisecond
	pollMax = time.Second
)

func (p *poller) until(err error) {
	var held *HeldError
	if errors.As(err, &held) {
		p.end = held.Until
	}
}

func (p *poller) next() time.Duration {
	p.l.mu.Lock()
	spread := p.l.random.Uint64()
	p.l.mu.Unlock()
	high := max(3*p.last, 2*pollMin)
	p.last = min(pollMax, pollMin+time.Duration(spread%uint64(high-pollMin)))
	if left := time.Until(p.end); left > 0 {
		return min(p.last, left+time.Millisecond)
	}
	return p.last
}

// sleep waits for d on the Locker's clock, or answers ctx's error.
func (l *Locker) sleep(ctx context.Context, d time.Duration) error {
	woken := make(chan struct{})
	stop := l.clock.AfterFunc(d, func() { close(woken) })
	defer stop()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
