package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// outage is how long Wait keeps trying while no server can be reached. After that it fails.
const outage = 3 * time.Second

// wait is one call of Wait.
type wait struct {
	s       *Store
	ctx     context.Context // ends when the caller's context ends, or with Close
	caller  context.Context
	r       *driver.Request
	reserve bool
	w       *waiter
	sent    bool           // the token may be in the queue
	asked   bool           // a message asked the waiter to look soon
	queued  bool           // the token was in the queue at the last look
	last    int64          // the greatest fence of the name at the last look that left the token in the queue
	down    driver.Instant // when the server was first found unreachable, or 0
	retry   time.Duration  // the last pause while the server is unreachable
}

// Wait implements driver.Waiter. The queue is first come, first served across all processes, and a
// release hands the name over to the first waiter directly.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := r.Validate(&s.guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.seen(r.Name); err != nil {
		return driver.Grant{}, err
	}
	if r.Shared && s.config.strings {
		return driver.Grant{}, errShared
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	ends, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()

	a := wait{s: s, ctx: ends, caller: ctx, r: &r, reserve: reserve, w: s.subscriber.add(&r, reserve && s.fast(&r))}
	defer s.subscriber.remove(a.w)
	g, err := a.wait()
	if err != nil && a.sent {
		a.w.giveUp = func() { s.leave(a.w) }
		s.subscriber.leaves(a.w)
		s.calls.Work.Go(a.w.giveUp)
	}
	return g, err
}

func (a *wait) wait() (driver.Grant, error) {
	for {
		g, next, err := a.lookOnce()
		if err == nil && next == 0 {
			return g, nil
		}
		if err != nil {
			if err = a.waitEnded(err); err != nil {
				return driver.Grant{}, err
			}
			next = spread(a.pause())
		}
		if g, done, err := a.sleepUntil(next); done || err != nil {
			return g, err
		}
	}
}

// lookOnce asks the server for the state of the name. The first time, it joins the queue. Later
// calls also show the server that the waiter is alive. If the wait goes on, lookOnce returns the
// time until the next look. Otherwise that time is 0, and lookOnce returns the grant.
func (a *wait) lookOnce() (g driver.Grant, next time.Duration, err error) {
	c, on, err := a.listening(true)
	if err != nil {
		return g, 0, err
	}
	a.sent = a.sent || a.reserve
	r := a.r
	reply, err := a.s.runScript(a.ctx, c, a.s.scripts.wait, r.Name, r.Token.Text(), mode(r.Shared), fence(r.FenceAbove),
		holderText(&r.Holder), on.channel, a.w.idText(a.s.trips.shorter()), digit(a.reserve), digit(a.asked), digit(a.queued))
	if err != nil {
		return g, 0, err
	}
	a.down, a.retry = 0, 0
	// Only a hand-over removes a waiter from the queue. So if the waiter has lost its place, the
	// message about the hand-over did not arrive.
	if a.queued && (reply.kind != replyWait || reply.number(1) == 1) {
		on.maybeDead()
	}
	a.queued = a.reserve && reply.kind == replyWait
	switch reply.kind {
	case replyWait:
		a.last = reply.number(2)
		a.asked = a.asked && reply.number(0) <= 2*driver.MaxReservation.Milliseconds()
		return g, max(time.Millisecond, time.Duration(reply.number(0))*time.Millisecond), nil
	case replyTryNow:
		return g, 0, nil
	}
	g, err = a.s.grant(&reply)
	g.TTL = min(g.TTL, driver.MaxReservation) // the caller must claim the name within this time, even if the lease is longer
	return g, 0, err
}

// listening makes sure that the waiter receives messages. If that takes a new connection, the store
// also checks the server again.
func (a *wait) listening(grants bool) (*connected, *subscription, error) {
	c, err := a.s.ready(a.ctx, grants)
	if err != nil {
		return nil, nil, err
	}
	on, err := a.s.subscriber.listening(a.ctx, c, a.w)
	if err != nil {
		return nil, nil, err
	}
	// The subscriber may have made a new connection. Its server is checked now, so that the check
	// does not delay a hand-over later.
	if c, err = a.s.ready(a.ctx, true); err != nil {
		return nil, nil, err
	}
	a.w.forget(msgLook) // drops earlier messages that asked for a look
	return c, on, nil
}

func (a *wait) ended() error {
	if err := a.caller.Err(); err != nil {
		return err
	}
	return driver.ErrClosed
}

// While the server is unreachable, each pause between two looks is twice as long as the one before.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// pause is called when the waiter could not look at the name. It returns how long the waiter pauses
// on average before it tries again.
func (a *wait) pause() time.Duration {
	a.retry = min(max(2*a.retry, firstRetry), lastRetry)
	return a.retry
}

// waitEnded returns the error that ends the wait, or nil if the wait continues.
func (a *wait) waitEnded(err error) error {
	switch {
	case a.ctx.Err() != nil:
		return a.ended()
	case !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain):
		return err
	}
	now := a.s.clock.Now()
	if a.down == 0 {
		a.down = now
	}
	if now.Sub(a.down) < outage {
		return nil
	}
	if errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return unavailable("%v", err)
}

// sleepUntil waits for a message, or until it is time to look.
func (a *wait) sleepUntil(next time.Duration) (g driver.Grant, done bool, err error) {
	t := time.NewTimer(next)
	defer t.Stop()
	due := time.Now().Add(next)
	for {
		select {
		case <-a.ctx.Done():
			return g, false, a.ended()
		case <-t.C:
			return g, false, nil
		case m := <-a.w.called:
			// A grant that was made before the last look is over, since that look put the token into
			// the queue. A reader that joins other readers gets their fence, so it is no older.
			late := m.value < a.last || m.value == a.last && !a.r.Shared
			if late && (m.kind == msgHandedOver || m.kind == msgGranted) {
				continue
			}
			switch m.kind {
			case msgHandedOver:
				return driver.Grant{Fence: a.s.callerFence(m.value), TTL: driver.MaxReservation}, true, nil
			case msgGranted:
				return driver.Grant{Fence: a.s.callerFence(m.value), From: m.from, TTL: a.r.TTL}, true, nil
			case msgTry:
				return g, true, nil
			case msgLookBy:
				a.asked = true
				if sooner := time.Now().Add(time.Duration(m.value+1) * time.Millisecond); sooner.Before(due) {
					due = sooner
					t.Reset(time.Until(due))
				}
			case msgLook:
				return g, false, nil
			}
		}
	}
}
