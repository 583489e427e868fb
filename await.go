package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// graceUnavailable is how long a store that was reached before may be out of
// reach while somebody waits.
const graceUnavailable = 30 * time.Second

// head is at the head of the line: it waits for the store and claims.
func (a *attempt) head() error {
	ctx, stop := a.bounded(a.ended)
	defer stop()
	poll := poller{l: a.l}
	waiter, _ := a.l.store.(driver.Waiter)
	var downSince driver.Instant
	var trouble error // the last, if the store has not answered since
	for {
		began := a.l.clock.Now()
		err := a.turn(ctx, &waiter, &poll)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrHeld):
			a.contended(err)
			poll.until(err)
			downSince, trouble = 0, nil
			if a.skips() {
				return a.held
			}
		case ctx.Err() != nil:
			return a.over(context.Cause(ctx), trouble)
		case !a.tolerates(err, began, &downSince):
			return err
		default:
			trouble = err
			a.l.sleep(ctx, poll.next())
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
		return &without{err, []error{ErrUncertain}} // the store cleans up after a wait
	case g.TTL == 0: // worth trying
		a.renewToken()
	case g.From != 0 && g.TTL > driver.MaxReservation: // it is the hold
		if err = a.granted(g.From, g); err != nil {
			a.doubt()
		}
		return err
	}
	return a.try(a.l.now())
}

// renewToken is called when a token is spent.
func (a *attempt) renewToken() {
	a.giveUpToken()
	a.l.mu.Lock()
	a.request.Token = a.l.newToken()
	a.h.token = a.request.Token
	a.l.mu.Unlock()
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

// tolerates reports whether a waiter goes on after a failure that is not its
// own: a server that restarts must not send a queue home.
// A wait that lasted for long before it failed shows that the store was there.
func (a *attempt) tolerates(err error, began driver.Instant, since *driver.Instant) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) {
		return false
	}
	now := a.l.clock.Now()
	if *since == 0 || now.Sub(began) >= graceUnavailable {
		*since = now
	}
	return now.Sub(*since) < graceUnavailable
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
