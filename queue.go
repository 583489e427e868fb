package padlock

import (
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// queue is the line of goroutines of one Locker that wait for one name. Only
// its head talks to the store: a thousand waiters here are one waiter there.
// In front of a store in this process nobody lines up; all are in its queue.
type queue struct {
	waiting int
	line    []*turn // line[0] is the head
	gone    int     // places in line whose owners gave up
	parking         // of the head

	// What those are told who give up without having asked.
	held   error // the last *HeldError that the store gave
	holder *hold // of this Locker, that had it after that
}

// turn is a place in a queue.
type turn struct {
	ready chan struct{} // of one: it is at the head, or has the lock, or the store answered
	gone  bool
	heir  heir
	g     driver.Grant // the store's answer
	err   error
	a     *attempt
}

// wait waits in line, then for the store, until the lock is granted or the
// wait is over. Thousands of goroutines may be parked in it, so what is not
// needed while they are is on the heap or in frames that are gone by then.
func (a *attempt) wait() error {
	err := a.lineUp()
	if err == nil && !a.first {
		err = a.finish(a.park())
	} else if err == nil {
		err = a.head()
	}
	a.leaveLine(err)
	return err
}

// park returns nil when it is this caller's turn, else why the wait is over.
//
//go:noinline
func (a *attempt) park() error {
	select {
	case <-a.place.ready:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	case <-a.l.closing.Done():
		return ErrClosed
	case <-a.ended:
		return errWaitOver
	}
}

// finish takes the lock when the wait in line has ended.
//
//go:noinline
func (a *attempt) finish(why error) error {
	switch {
	case why == nil && a.leave == nil:
		return a.called()
	case why == nil:
		return a.answered()
	case a.leave == nil:
		a.withdraw()
	case !a.leave():
		// The store's answer came in the same instant; it is given back.
		<-a.place.ready
		a.late = a.place.err == nil
	}
	return a.over(why, nil)
}

// answer is called by the store.
func (t *turn) answer(g driver.Grant, err error) {
	t.g, t.err = g, err
	t.ready <- struct{}{}
}

// answered takes over what the store gave.
func (a *attempt) answered() error {
	if a.place.err != nil {
		return a.place.err
	}
	err := a.granted(0, a.place.g)
	if err != nil {
		a.doubt()
	}
	return err
}

// over says why the wait ended: what held the name, the context's error if it
// was that, and what else went wrong.
func (a *attempt) over(cause, trouble error) error {
	err := a.holder()
	switch {
	case a.ctx.Err() != nil:
		err = &joined{err, a.ctx.Err()}
	case errors.Is(cause, ErrClosed):
		err = ErrClosed
	}
	if trouble != nil {
		err = &joined{err, trouble}
	}
	return err
}

// holder says who holds the name, as far as it is known.
func (a *attempt) holder() error {
	if a.held != nil {
		return a.held
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	q := a.line
	switch {
	case q.holder == nil:
		return q.held
	case q.holder.cause != nil:
		return &HeldError{Waiters: q.waiting - 1}
	}
	hold := q.holder.report()
	return &HeldError{Holds: []Hold{hold}, Until: hold.Until, Waiters: q.waiting - 1}
}

// report tells of h as a store would. The caller holds mu.
func (h *hold) report() Hold {
	l, wall := h.locker, time.Now()
	hold := Hold{
		Holder: driver.Holder{Host: l.host, PID: l.pid, Label: h.label, Plan: h.plan},
		Shared: h.shared, Since: wall.Add(h.grantedAt.Sub(l.clock.Now())),
	}
	if left := h.Remaining(); left < driver.MaxTTL {
		hold.Until = wall.Add(left)
	}
	if h.plan > 0 {
		hold.PlannedEnd = hold.Since.Add(h.plan)
	}
	return hold
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

// lineUp takes a place in the line, in front of a store in this process in its
// queue, and starts the time of Wait.
//
//go:noinline
func (a *attempt) lineUp() error {
	if err := a.takePlace(); err != nil {
		return err
	}
	if d := a.set.wait; d >= 0 {
		ended := make(chan struct{})
		d -= a.l.clock.Now().Sub(a.start)
		a.ended, a.stopTimer = ended, a.l.clock.AfterFunc(max(0, d), func() { close(ended) })
	}
	if a.l.enqueuer == nil {
		return nil
	}
	var err error
	a.leave, err = a.l.enqueuer.Enqueue(a.request, a.place.answer)
	return err
}

func (a *attempt) takePlace() error {
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[a.h.name]
	if q == nil {
		q = &queue{held: ErrHeld}
	}
	if q.waiting >= l.cfg.maxWaiters {
		return ErrTooManyWaiters
	}
	l.queues[a.h.name] = q
	if a.held != nil {
		q.held, q.holder = a.held, nil
	}
	a.line, a.place = q, &turn{ready: make(chan struct{}, 1), a: a}
	q.waiting++
	l.stats.waiting++
	if l.enqueuer == nil {
		q.line = append(q.line, a.place)
		a.first = len(q.line) == 1 && !l.park(q)
	}
	return nil
}

// leaveLine gives the caller's place up; a grant has done so.
//
//go:noinline
func (a *attempt) leaveLine(err error) {
	if a.stopTimer != nil {
		a.stopTimer()
	}
	if err == nil || a.place == nil {
		return
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.leaveLineLocked()
}

// leaveLineLocked gives the place up; if it was the head, the next is called.
// The caller holds mu.
func (a *attempt) leaveLineLocked() {
	l, q, t := a.l, a.line, a.place
	if t.gone {
		return
	}
	t.gone = true
	l.stats.waiting--
	if q.waiting--; q.waiting == 0 {
		q.parking.over()
		delete(l.queues, a.h.name)
		return
	}
	if len(q.line) > 0 {
		l.leaveLine(q, t)
	}
}

func (l *Locker) leaveLine(q *queue, t *turn) {
	if q.line[0] != t {
		// Who gave up behind a head that stays must not be kept for ever.
		if q.gone++; q.gone > len(q.line)/2 {
			q.line = slices.DeleteFunc(q.line, func(t *turn) bool { return t.gone })
			q.gone = 0
		}
		return
	}
	q.line[0] = nil
	q.line = q.line[1:]
	for q.line[0].gone { // somebody waits
		q.line[0] = nil
		q.line = q.line[1:]
		q.gone--
	}
	if !l.park(q) {
		q.parked = false
		q.line[0].ready <- struct{}{}
	}
}
