package memstore

import (
	"context"

	"github.com/padlock-go/padlock/driver"
)

// Wait implements driver.Waiter. If reserve is true, waiters get their turn in the order in which
// they came.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	var g driver.Grant
	var err error
	answered := make(chan struct{}, 1)
	leave, refused := s.enqueue(&waiter{of: s, r: r, onTurn: func(got driver.Grant, e error) {
		g, err = got, e
		answered <- struct{}{}
	}}, reserve)
	if refused != nil {
		return driver.Grant{}, refused
	}
	select {
	case <-answered:
		return g, err
	case <-ctx.Done():
	}
	if !leave() {
		<-answered
		if g.TTL > 0 { // granted at the same instant; release it to the next waiter
			s.Release(context.WithoutCancel(ctx), r.Name, r.Token.Text(), 0)
		}
	}
	return driver.Grant{}, ctx.Err()
}

func (s *Store) enqueue(w *waiter, reserve bool) (leave func() bool, err error) {
	if err := w.r.Validate(&s.guarantees); err != nil {
		return nil, err
	}
	if err := s.enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.unlock()
	now := s.now()
	e := s.entry(w.r.Name, now)
	if reserve {
		e.queue = append(e.queue, w)
	} else {
		e.watchers = append(e.watchers, w)
	}
	s.advance(e, now)
	return w.givePlaceUp, nil
}

// givePlaceUp gives up the waiter's place in the queue, and grants the name to the waiters behind
// it that can have the name now. It returns true if the waiter still had its place. In this case
// onTurn will not be called. It returns false if onTurn has been called, or is about to be called.
func (w *waiter) givePlaceUp() bool {
	s := w.of.space
	s.mu.Lock()
	defer s.unlock()
	if w.out {
		return false
	}
	w.out = true
	if e := s.entries[w.r.Name]; e != nil { // the token may have been released, and then the name
		e.leaveQueues(w.r.Token.Text())
		s.advance(e, s.now())
	}
	return true
}
