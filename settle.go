package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// settle completes an attempt that has just got the lock. The caller holds mu.
func (a *attempt) settle(now driver.Instant) {
	l := a.l
	if !a.gate {
		l.stats.acquired++
	}
	// Locker.attempts counts a Do until its function has returned. If the lock is passed on to a
	// waiter, Locker.attempts counts that waiter until it has taken the lock.
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
			go readers.comeIn(l, a.line)
		}
	}
	if a.events != nil {
		a.observeGrant()
	}
}

// observeGrant is called when the lock has just been granted. It counts EventAcquired, or makes the
// other events wait until announce has delivered EventAcquired. The caller holds mu.
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
	c := Count{Kind: EventAcquired, Mode: modeOf(h.shared), Outcome: OutcomeAcquired, HandOver: a.by, AtOnce: !a.pending}
	if a.start != 0 {
		c.Took = max(0, h.grantedAt.Sub(a.start))
	}
	a.events.count(c)
}

// attemptOver counts an attempt as ended. If it was the last one, attemptOver wakes a Close that
// waits for that. The caller holds mu.
func (l *Locker) attemptOver() {
	l.attempts--
	if l.drained != nil && l.attempts == 0 {
		close(l.drained)
		l.drained = nil
	}
}

// passingOver ends the state turnPassing of t: it sets the new state and wakes the waiter. If the
// waiter has given up, passingOver does both only if the new state is turnGiven. The caller holds
// mu.
func (l *Locker) passingOver(t *turn, becomes turnState) {
	if !t.gone || becomes == turnGiven {
		t.state = becomes
		t.ready <- struct{}{}
	}
	l.attemptOver()
}

// When a reader gets its lock, the readers directly behind it in the line can get their locks too.
// If the store can take several shared holds at once (driver.SharedTaker), one request brings them
// in. Otherwise each of these readers becomes the head in turn and sends its own request.

// readers are the turns of readers that get their locks with one request. Their state is
// turnPassing until the reply has come.
type readers []*turn

// mostReaders is how many readers one request brings in at most. When the last of them has its
// lock, it brings in the next ones.
const mostReaders = 128

// readersBehind returns the readers that come in with this attempt, which has just got the lock. It
// returns nil if there are none. All of them must ask for the same TTL, because they come in with
// one request. The caller holds mu.
func (a *attempt) readersBehind() (come readers) {
	l, q := a.l, a.line
	if l.sharers == nil || !a.h.shared || l.closed || len(q.line) == 0 || q.line[0] != a.place {
		return nil
	}
	for _, t := range q.line[1:] {
		if t.gone {
			continue
		}
		if t.state != turnLined || !t.a.comesWith(come) || len(come) == mostReaders {
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
	l.attempts++ // for comeIn, so that Close also waits until its clean-ups are known
	return come
}

// comesWith reports whether one request can bring in this attempt together with the given readers.
func (a *attempt) comesWith(come readers) bool {
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

// comeIn sends one request for the shared holds of all these readers.
func (come readers) comeIn(l *Locker, q *queue) {
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
		if t.cameIn(sent, now, g, err != nil && err != ErrClosed && !definite(err)) {
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

// cameIn ends the state turnPassing of t. It returns true if the store may have granted a lock that
// no waiter takes. The caller holds mu.
func (t *turn) cameIn(sent, now driver.Instant, g driver.Grant, lost bool) (cleanUp bool) {
	l := t.a.l
	granted := g.TTL > 0
	switch {
	case t.gone:
		l.attemptOver()
		return granted || lost
	case granted && !l.closed && l.renewer.granted(t.a.h, sent, now, g, t.a.set.maxHold):
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
