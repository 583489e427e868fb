package advisory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	// reservation is how long a lock stays reserved for a waiter that got it. If nobody claims the
	// lock in this time, the store releases it. If the process is stopped and cannot do that, the
	// server ends the session a little later.
	reservation = 400 * time.Millisecond
	// A waiter without a session pauses for pauseMin to 2 × pauseMin before it looks at the lock
	// again. The pause is as many times longer as there are such waiters.
	pauseMin = 25 * time.Millisecond
	// While others seek a session, a waiter leaves its session after minTurn, and seeks one again.
	// Each further turn of the same wait is twice as long, up to maxTurn, so that a waiter in a slow
	// queue is served, too.
	minTurn = 2 * time.Second
	maxTurn = 32 * time.Second
	// leaveEvery is how often a waiter of the process leaves its session, at most.
	leaveEvery = 250 * time.Millisecond
	// endLimit is how long the statement of a wait that has to end may go on.
	endLimit = time.Second
)

// Wait implements driver.Waiter. The store has 8 sessions for waiters. Wait uses one of them only
// if reserve is true:
//
//	reserve  sessions      what Wait does
//	true     one is free   waits in the server's queue, and is granted the lock in that session;
//	                       leaves the session to others that seek one after a while (see minTurn)
//	true     all are used  looks at the lock from time to time, until a session is free
//	false    any           looks at the lock from time to time
func (s *Store[C]) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	if !s.ready.Load() {
		switch err := Prepare(ctx, s); {
		case errors.Is(err, driver.ErrInvalid):
			return driver.Grant{}, err
		case err != nil: // the server may be back soon
			return driver.Grant{}, s.nap(ctx)
		}
	}
	l := Lock{r.Name, s.dialect.Key(r.Name)}
	for turn := minTurn; ; turn = min(2*turn, maxTurn) {
		entry, err := s.seek(ctx, l, &r, reserve)
		if entry == nil {
			return driver.Grant{}, s.calls.AfterClose(err)
		}
		if g, err := s.waitTurn(ctx, entry, l, &r, turn); err != errTurnOver {
			return g, err
		}
	}
}

var errTurnOver = errors.New("others seek a session")

// waitTurn waits in the session of an entry. It returns errTurnOver if the turn is over.
func (s *Store[C]) waitTurn(ctx context.Context, entry *poolEntry[C], l Lock, r *driver.Request, turn time.Duration) (driver.Grant, error) {
	type result struct {
		g   driver.Grant
		err error
	}
	done := make(chan result, 1)
	s.calls.Work.Go(func() {
		g, err := s.waitIn(ctx, entry, l, r, turn)
		done <- result{g, err}
	})
	select {
	case w := <-done:
		if w.err == nil && w.g == (driver.Grant{}) {
			w.err = s.endReason(ctx)
		}
		return w.g, s.calls.AfterClose(w.err)
	case <-ctx.Done(): // the server's part of the wait ends a little later
		s.calls.Work.Go(func() {
			if w := <-done; w.g.TTL > 0 {
				s.unreserve(r.Name, r.Token.Text())
			}
		})
		return driver.Grant{}, s.calls.AfterClose(ctx.Err())
	}
}

// endReason returns the reason if a wait has to end, and nil otherwise.
func (s *Store[C]) endReason(ctx context.Context) error {
	if s.calls.Closing.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// nap returns after a pause.
func (s *Store[C]) nap(ctx context.Context) error {
	pause := time.NewTimer(pauseMin + rand.N(pauseMin))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	case <-s.calls.Closing.Done():
	}
	return s.endReason(ctx)
}

// seek waits until a session for waiters is free, and returns its entry. It returns nil if the lock
// seems to be free now, or if the wait has to end. Without reserve, it looks at the lock only.
func (s *Store[C]) seek(ctx context.Context, l Lock, r *driver.Request, reserve bool) (*poolEntry[C], error) {
	var seats chan<- struct{}
	if reserve {
		seats = s.pool.seats
		select {
		case seats <- struct{}{}:
			return s.pool.seat(), nil
		default:
		}
	}
	others := &s.pool.seeking
	others.Add(1)
	defer others.Add(-1)
	for {
		pause := time.NewTimer((pauseMin + rand.N(pauseMin)) * time.Duration(others.Load()))
		select {
		case seats <- struct{}{}:
			pause.Stop()
			return s.pool.seat(), nil
		case <-pause.C:
			if s.looksFree(ctx, l, r) {
				return nil, s.endReason(ctx)
			}
		case <-ctx.Done():
			return nil, s.endReason(ctx)
		case <-s.calls.Closing.Done():
			return nil, s.endReason(ctx)
		}
	}
}

// looksFree asks the server whether a try may succeed. It also returns true if the server does not
// answer. A reader that waits for its promotion has the lock itself, so nothing but a try can tell.
func (s *Store[C]) looksFree(ctx context.Context, l Lock, r *driver.Request) bool {
	if s.holds.has(l.Key, r.Token.Text()) {
		return true
	}
	free, err := Ask(ctx, s, func(c C) (bool, error) { return s.dialect.LooksFree(c, l, r.Shared) })
	return free || err != nil
}

// waitIn waits in the session of an entry. Unless the lock was granted, it ends the session,
// because the server would soon end it as idle. The session may also have the lock, and only the
// end of the session makes sure that the lock is free.
func (s *Store[C]) waitIn(ctx context.Context, entry *poolEntry[C], l Lock, r *driver.Request, turn time.Duration) (driver.Grant, error) {
	c, err := s.pool.dial(entry)
	if err != nil { // the server may be back soon
		s.pool.giveBack(entry)
		return driver.Grant{}, s.nap(ctx)
	}
	fence, granted, err := s.block(ctx, c, l, r, turn)
	var g driver.Grant
	if granted {
		g, err = s.handedOver(ctx, entry, c, l, fence, r)
	}
	if g.TTL == 0 {
		c.s.Close()
		s.pool.giveBack(entry)
	}
	if err == nil && g.TTL == 0 {
		return g, s.nap(ctx)
	}
	return g, err
}

// block waits in the server's queue until the session has the lock, ctx ends, or the turn is over.
// After an error that a new try may overcome, the caller asks again.
func (s *Store[C]) block(ctx context.Context, c *conn[C], l Lock, r *driver.Request, turn time.Duration) (fence uint64, granted bool, err error) {
	if err := s.endReason(ctx); err != nil {
		return 0, false, err
	}
	if !s.pool.beginWait() {
		return 0, false, driver.ErrClosed
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(s.calls.Closing, func() { cancel(nil) })()
	s.pool.whenSought(waiting, turn, func() { cancel(errTurnOver) })
	done, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(waiting, func() {
		defer close(ended)
		s.endWait(c, done)
	})
	g, err := s.dialect.Await(waiting, c.s, l, r)
	close(done)
	if !stop() {
		<-ended
	}
	s.pool.blocked.Done()
	over := context.Cause(waiting) == errTurnOver
	cancel(nil)
	switch end := s.endReason(ctx); {
	case end != nil:
		return 0, false, end
	case errors.Is(err, driver.ErrInvalid):
		return 0, false, err
	case over && (err != nil || !g.Granted):
		return 0, false, errTurnOver
	}
	return g.Fence, err == nil && g.Granted && c.alive(), nil
}

// endWait ends the statement of a wait; done is closed when the statement has returned. A statement
// that goes on for long ends together with its connection.
func (s *Store[C]) endWait(c *conn[C], done <-chan struct{}) {
	late := time.AfterFunc(endLimit, func() { c.s.Lose(errWaitEnded) })
	defer late.Stop()
	if other, err := s.pool.anyConn(); err == nil {
		_ = s.dialect.EndWait(other, c.s) // an error leaves it to the timer
	}
	<-done
}

var errWaitEnded = errors.New("the wait has ended")

// handedOver is called after the server has granted the lock to the session of a waiter. It
// reserves the lock for the waiter's token.
func (s *Store[C]) handedOver(ctx context.Context, entry *poolEntry[C], c *conn[C], l Lock, fence uint64, r *driver.Request) (driver.Grant, error) {
	h, err := s.holds.enter(ctx, r.Name, r.Token.Text())
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.holds.leave(h)
	if h.state != none {
		return driver.Grant{}, fmt.Errorf("%w: the token has a hold", driver.ErrInvalid)
	}
	free := sync.OnceFunc(func() { s.pool.giveBack(entry) })
	stop := context.AfterFunc(c.s.Bound(), free)
	h.key, h.back = l.Key, func() { stop(); free() }
	s.pool.handOver(c, l.Key, !r.Shared)
	s.holds.noteGrant(h, reserved, c, fence, r)
	name, token := r.Name, r.Token.Text()
	h.timer = time.AfterFunc(reservation, func() { s.unreserve(name, token) })
	return driver.Grant{Fence: fence, TTL: reservation}, nil
}

// unreserve releases a lock that is reserved for a token which has not claimed it.
func (s *Store[C]) unreserve(name, token string) {
	s.later(name, token, func(h *hold[C]) {
		if h.state == reserved {
			_, _ = s.letGo(h)
		}
	})
}
