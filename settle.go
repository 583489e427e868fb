package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// settle completes an attempt that has just got the lock. The caller holds mu.
func (a *attempt) settle(now driver.Instant) {
	l := a.l
	if !a.gate {
		l.stats.acquired++
	}
	// Locker.attempts counts the calls that Close waits for. A call of Do is counted until its
	// function has returned. If the lock is passed on to a waiter, the waiter is counted until it
	// has taken the lock.
	if !a.within && (a.place == nil || a.place.state != turnPassing) {
		l.attempts--
	}
	if l.handover.holders != nil && a.mayPassOn() {
		l.handover.holders[a.h.name] = a.h
		if a.h.batch == nil {
			a.h.batch = l.newBatch(now)
		}
	}
	if a.place != nil {
		readers := a.readersBehind()
		a.line.held, a.line.holder = nil, a.h
		a.leaveLineLocked()
		if readers != nil {
			go readers.acquireShared(l, a.line)
		}
	}
	if a.events != nil {
		a.observeGrant()
	}
}

// observeGrant is called, with mu locked, when the lock has just been granted.
//
//   - If the Locker only counts events, observeGrant counts EventAcquired. An attempt that waited
//     in a line is an exception: its goroutine counts EventAcquired when it runs again.
//   - If the Locker delivers events, announce will deliver EventAcquired. Until then observeGrant
//     holds back the other events of the hold.
func (a *attempt) observeGrant() {
	switch {
	case !a.events.counts():
		a.events.holdBack = true
	case a.place == nil:
		a.countGrant()
	}
}

// countGrant counts EventAcquired. The caller holds mu.
func (a *attempt) countGrant() {
	h := a.h
	h.events = a.events
	if a.single {
		a.handle = h.watchedHandle()
	}
	mode, took := modeOf(h.shared), time.Duration(0)
	if a.start != 0 {
		took = max(0, h.grantedAt.Sub(a.start))
	}
	if a.by != NoHandOver || a.pending { // only Count counts hand-overs and callers that had to wait
		a.events.count(Count{Kind: EventAcquired, Mode: mode, Outcome: OutcomeAcquired, HandOver: a.by, Took: took, AtOnce: !a.pending})
		return
	}
	if to := a.events.histogramFor(EventAcquired, mode); to != nil {
		to.Add(took)
		return
	}
	a.events.count(Count{Kind: EventAcquired, Mode: mode, Outcome: OutcomeAcquired, Took: took, AtOnce: true})
	a.events.borrow(EventAcquired, mode)
}

// attemptOver counts an attempt as ended. If it was the last attempt, attemptOver wakes a Close
// that waits for the end of all attempts. The caller holds mu.
func (l *Locker) attemptOver() {
	l.attempts--
	if l.drained != nil && l.attempts == 0 {
		close(l.drained)
		l.drained = nil
	}
}

// passingOver is called when it is known what a turn in the state turnPassing gets. It gives the
// turn its new state and wakes the waiter. If the waiter has given up, passingOver does neither. A
// waiter has given up if turn.gone is true and the new state is not turnGiven. (turn.gone is also
// true if the waiter got the lock.) The caller holds mu.
func (l *Locker) passingOver(t *turn, becomes turnState) {
	if !t.gone || becomes == turnGiven {
		t.state = becomes
		t.ready <- struct{}{}
	}
	l.attemptOver()
}

// When a reader (a caller that waits for a shared lock) gets its lock, the readers directly behind
// it in the line can get their locks too. Some stores can take several shared locks with one
// request (driver.SharedTaker). On such a store the Locker sends one request for all these readers.
// On other stores each of these readers becomes the head of the line and sends a request of its
// own.

// A readerBatch contains the turns of readers that get their locks with one request. The turns are
// in the state turnPassing until the reply has arrived.
type readerBatch []*turn

// mostReaders is the largest number of readers in one request. When the last of them has its lock,
// the next request follows for the readers behind it.
const mostReaders = 128

// readersBehind is called when this attempt has just got a shared lock. It returns the turns of the
// readers directly behind this attempt that can get their locks with one request, or nil if there
// are fewer than two. They must all ask for the same TTL and name the same Holder. The caller holds
// mu.
func (a *attempt) readersBehind() (come readerBatch) {
	l, q := a.l, a.line
	if l.sharers == nil || !a.h.shared || l.closed || len(q.line) == 0 || q.line[0] != a.place {
		return nil
	}
	for _, t := range q.line[1:] {
		if t.gone {
			continue
		}
		if t.state != turnLined || !t.a.canJoin(come) || len(come) == mostReaders {
			break
		}
		come = append(come, t)
	}
	if len(come) < 2 {
		return nil
	}
	for _, t := range come {
		t.state = turnPassing
		l.attempts++
	}
	l.attempts++ // Close also waits until acquireShared has begun its clean-ups
	return come
}

// canJoin reports whether this attempt can get its lock with the same request as the given readers.
func (a *attempt) canJoin(come readerBatch) bool {
	r := &a.request
	if !r.Shared || r.AtLeast != 0 || r.FenceAbove != 0 || r.Detached || a.part {
		return false
	}
	if len(come) == 0 {
		return true
	}
	first := &come[0].a.request
	return r.TTL == first.TTL && r.Holder == first.Holder
}

// acquireShared sends one request for the shared holds of all these readers.
func (come readerBatch) acquireShared(l *Locker, q *queue) {
	rs := make([]driver.Request, len(come))
	l.mu.Lock()
	for i, t := range come {
		rs[i] = t.a.request
	}
	sharers, closed := l.sharers, l.closed
	l.mu.Unlock()
	var grants []driver.Grant
	err := ErrClosed
	sent := l.clock.Now()
	if !closed && sharers != nil {
		ctx, cancel := context.WithTimeout(context.Background(), driver.MaxSilence)
		grants, err = sharers.AcquireShared(ctx, rs)
		cancel()
	}
	now := l.clock.Now()
	l.mu.Lock()
	if errors.Is(err, errors.ErrUnsupported) {
		l.sharers = nil
	}
	var left []cleanUp
	for i, t := range come {
		g := driver.Grant{}
		if err == nil && i < len(grants) {
			g = grants[i]
		}
		if t.sharedReply(sent, now, g, err != nil && err != ErrClosed && !definite(err)) {
			left = append(left, cleanUp{name: rs[i].Name, token: rs[i].Token, events: t.a.events})
		}
	}
	if l.queues[rs[0].Name] == q && len(q.line) > 0 {
		l.nextHead(q)
	}
	l.unlock()
	for _, c := range left {
		l.cleaner.add(c, rs[0].TTL)
	}
	l.mu.Lock()
	l.attemptOver()
	l.unlock()
}

// sharedReply is called with a turn in the state turnPassing, when the store has replied. It gives
// the turn its next state, unless the waiter has given up. It returns true if the store may have
// granted a lock that no waiter will take. The caller must then begin a clean-up. The caller holds
// mu.
func (t *turn) sharedReply(sent, now driver.Instant, g driver.Grant, lost bool) (cleanUp bool) {
	l := t.a.l
	granted := g.TTL > 0
	switch {
	case t.gone:
		l.attemptOver()
		return granted || lost
	case granted && !l.closed && l.renewer.recordGrant(t.a.h, sent, now, g, t.a.set.maxHold):
		t.a.settle(now)
		l.passingOver(t, turnGiven)
	case granted || lost:
		l.passingOver(t, turnUnsure)
	default:
		t.state = turnLined
		l.attemptOver()
	}
	return false
}
