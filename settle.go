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
		if a.h.batch == nil && a.replaces == nil { // an adopted lock may still have to be held for the time of HoldAtLeast
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
	if a.by != NoHandOver || a.pending { // the histograms count neither hand-overs nor waiting callers
		a.events.count(Count{Kind: EventAcquired, Mode: mode, Outcome: OutcomeAcquired, HandOver: a.by, Took: took, AtOnce: !a.pending})
		return
	}
	if to := a.events.histogramFor(EventAcquired, mode); to != nil {
		to.Add(took)
		return
	}
	a.events.count(Count{Kind: EventAcquired, Mode: mode, Outcome: OutcomeAcquired, Took: took, AtOnce: true})
	a.events.fetchHistogram(EventAcquired, mode)
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

// passingOver ends the state turnPassing of t. It gives t the new state and wakes the waiter. If
// the waiter has given up, the state stays as it is. The caller holds mu.
func (l *Locker) passingOver(t *turn, newState turnState) {
	// A waiter that got the lock has left the line. So t.gone may be true in turnGiven.
	if !t.gone || newState == turnGiven {
		t.state = newState
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

// mostReaders is the largest number of readers in one request. When all of them have their locks,
// the next readers in the line get theirs with another request.
const mostReaders = 128

// readersBehind is called when this attempt has just got a shared lock. It looks at the turns
// directly behind this attempt in the line, and returns those readers that can get their locks with
// one request. They all ask for the same TTL and name the same Holder. If there are fewer than two,
// the result is nil. The caller holds mu.
func (a *attempt) readersBehind() (readers readerBatch) {
	l, q := a.l, a.line
	if l.sharers == nil || !a.h.shared || l.closed || len(q.line) == 0 || q.line[0] != a.place {
		return nil
	}
	for _, t := range q.line[1:] {
		if t.gone {
			continue
		}
		if t.state != turnLined || !t.a.canJoin(readers) || len(readers) == mostReaders {
			break
		}
		readers = append(readers, t)
	}
	if len(readers) < 2 {
		return nil
	}
	for _, t := range readers {
		t.state = turnPassing
		l.attempts++
	}
	l.attempts++ // for acquireShared, which may begin clean-ups
	return readers
}

// canJoin reports whether one request can take the lock of this attempt and the locks of the given
// readers.
func (a *attempt) canJoin(readers readerBatch) bool {
	r := &a.request
	if !r.Shared || r.AtLeast != 0 || r.FenceAbove != 0 || r.Detached || a.part {
		return false
	}
	if len(readers) == 0 {
		return true
	}
	first := &readers[0].a.request
	return r.TTL == first.TTL && r.Holder == first.Holder
}

// acquireShared sends one request for the shared holds of the readers.
func (readers readerBatch) acquireShared(l *Locker, q *queue) {
	rs := make([]driver.Request, len(readers))
	l.mu.Lock()
	for i, t := range readers {
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
	for i, t := range readers {
		g := driver.Grant{}
		if err == nil && i < len(grants) {
			g = grants[i]
		}
		if t.sharedReply(sent, now, g, err != nil && err != ErrClosed && !definite(err)) {
			left = append(left, cleanUp{name: rs[i].Name, token: rs[i].Token, acquire: true, events: t.a.events})
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

// sharedReply handles the store's reply for one turn of a readerBatch. The turn is in turnPassing.
// If its waiter has not given up, sharedReply gives the turn its next state. If sharedReply returns
// true, the store may have granted a lock that no waiter will take. The caller must then begin a
// clean-up. The caller holds mu.
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
