package padlock

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// queue is the line of goroutines of one Locker that wait for one name. Only
// its head talks to the store: a thousand waiters here are one waiter there.
// A store in this process keeps the queue itself; then line stays empty.
type queue struct {
	waiting int
	line    []*turn // line[0] is the head
	gone    int     // places in line whose waiters gave up
	parking         // of the head

	// The error of a waiter that gives up before it has asked the store.
	held   error // the last *HeldError that the store returned
	holder *hold // the hold of this Locker that came after that error
}

// turn is the place of one waiter in a queue.
type turn struct {
	ready chan struct{} // of one message: the state is called, given, spent or unsure; or the store answered
	state turnState
	gone  bool         // it is out of the line: the waiter gave up, or has the lock
	g     driver.Grant // the answer of a store that keeps the queue itself
	err   error
	a     *attempt
}

// turnState is how far a turn has come. Locker.mu guards it. From called on it
// does not change, and the waiter reads it without mu after it received ready.
//
//	state    entered when                                  the waiter is called      the waiter gives up
//	lined    it takes its place (takePlace)                cannot be                 leaves
//	parked   it is the head, and this Locker has a lock    cannot be                 leaves; the next turn is parked
//	         to wait for (parkHead)                                                  or called
//	passing  a Release chose it (chooseNext)               cannot be                 leaves; the Release that asks the
//	                                                                                 store cleans up what it is granted
//	called   it is the head and not parked (callHead); or  asks the store            leaves; the next turn is parked
//	         parkFor is over, or the lock it was parked                              or called
//	         behind is gone (wakeHead); or nothing was
//	         sent to the store for it (passingOver)
//	given    the lock was passed on to it (passedTo,       has the lock              gives it back, unless Close does
//	         handHoldTo)
//	spent    the store refused to pass the lock on to it   asks with a new token     leaves
//	unsure   the store's answer was lost; or the lock was  asks with a new token;    leaves; cleans up; the error is
//	         granted to it after Close or after the lease  cleans up                 ErrUncertain too
//
// The transitions are:
//
//	lined   → parked, called
//	parked  → passing, called
//	passing → called, given, spent, unsure
//
// Close changes no state. After it no turn becomes passing or given: a turn that
// is passing becomes unsure if the lock is granted to it. A turn whose waiter
// gave up while it was passing keeps that state. Close waits for each turn: the
// waiter counts in Locker.attempts until it has taken the lock or given up, and
// so does the Release while a turn is passing.
type turnState int8

const (
	lined turnState = iota
	parked
	passing
	called
	given
	spent
	unsure
)

// answer is called by the store.
func (t *turn) answer(g driver.Grant, err error) {
	t.g, t.err = g, err
	t.ready <- struct{}{}
}

// leaveLineLocked gives the place up. If it was the head, the next turn is the
// head. The caller holds mu.
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
		// Turns that are gone must not pile up behind a head that stays.
		if q.gone++; q.gone > len(q.line)/2 {
			q.line = slices.DeleteFunc(q.line, func(t *turn) bool { return t.gone })
			q.gone = 0
		}
		return
	}
	q.line[0] = nil
	q.line = q.line[1:]
	for q.line[0].gone { // q.waiting > 0: one of the turns is not gone
		q.line[0] = nil
		q.line = q.line[1:]
		q.gone--
	}
	if !l.parkHead(q) {
		q.callHead()
	}
}

// callHead sends the head to the store. The caller holds mu.
func (q *queue) callHead() {
	t := q.line[0]
	t.state = called
	t.ready <- struct{}{}
}

// A released lock may go to the next turn in the line of its Locker directly:
// with one request for both (driver.Passer), or, with PassLocally, without any.
// So the head of a line behind such a lock does not join the store's queue at
// once. It is parked, and joins the queue if the lock is not released soon.

// parkFor is how long the head of a line waits for a holder of its Locker
// before it joins the store's queue. It is long enough for several hand-overs
// in this process and too short to matter to waiters in other processes, which
// then stand before it.
const parkFor = 2 * time.Millisecond

// handoverState is what a Locker needs to pass locks on.
type handoverState struct {
	passer  driver.Passer      // nil where the store is none
	raiser  driver.FenceRaiser // which reserves fences for PassLocally
	holders map[string]*hold   // those that may be passed on, by name; nil where none is
	invalid error              // what is wrong with PassLocally
}

func (l *Locker) initHandover() {
	if l.handover.invalid = l.cfg.checkPassing(); l.handover.invalid != nil || l.guarantees.InProcess {
		return // its own queue is as good
	}
	l.handover.passer, _ = driver.As[driver.Passer](l.store)
	l.handover.raiser, _ = driver.As[driver.FenceRaiser](l.store)
	if l.handover.passer != nil || l.cfg.passMost > 0 {
		l.handover.holders = make(map[string]*hold)
	}
}

// parking is how long the head of a line is parked. It is guarded by mu.
type parking struct {
	until driver.Instant
	rings driver.Instant // when the alarm does
	alarm func() bool    // stops it; nil when none is set
}

func (p *parking) over() {
	if p.alarm != nil {
		p.alarm()
		p.alarm = nil
	}
}

// passes reports whether the lock that a has been granted may be passed on.
func (a *attempt) passes() bool {
	return !a.h.shared && a.set.holdAtLeast == 0 && a.h.coolDown == 0
}

// unlist is called when h ends or becomes a lock that is not passed on. wake
// sends the turn that is parked behind h to the store; without it the caller
// does so, or passes h on. The caller holds mu.
func (l *Locker) unlist(h *hold, wake bool) {
	if l.handover.holders == nil || l.handover.holders[h.name] != h {
		return
	}
	delete(l.handover.holders, h.name)
	if wake {
		l.wakeHead(h.name)
	}
}

// wakeHead sends a parked head to the store. The caller holds mu.
func (l *Locker) wakeHead(name string) {
	if q := l.queues[name]; q.headParked() {
		q.callHead()
	}
}

// headParked reports whether the head of q is parked, and not chosen by a
// Release. The caller holds mu.
func (q *queue) headParked() bool {
	return q != nil && len(q.line) > 0 && q.line[0].state == parked
}

// mayPark reports whether a caller that wants name for itself is likely to be
// parked. The caller holds mu.
func (l *Locker) mayPark(name string) bool {
	if l.handover.holders == nil {
		return false
	}
	h := l.handover.holders[name]
	return h != nil && (l.handover.passer != nil || h.batch.open(l.clock.Now()))
}

// parkHead lets the head of q wait for a holder of this Locker, and reports
// whether there is one to wait for. The caller holds mu.
func (l *Locker) parkHead(q *queue) bool {
	a := q.line[0].a
	h := l.handover.holders[a.h.name]
	if h == nil {
		return false
	}
	now := l.clock.Now()
	switch {
	case h.batch.open(now) && a.follows(h):
		q.until = h.batch.until
	case l.handover.passer != nil && !a.request.Shared:
		q.until = now.Add(parkFor)
	default:
		return false
	}
	if q.holder != h {
		q.held, q.holder = nil, h
	}
	q.line[0].state = parked
	l.setAlarm(q, a.h.name, now)
	return true
}

// setAlarm makes sure that q is looked at when its head was parked for long
// enough. An earlier alarm stays: it sets the next one.
func (l *Locker) setAlarm(q *queue, name string, now driver.Instant) {
	if q.alarm != nil {
		if q.rings <= q.until {
			return
		}
		q.alarm()
	}
	at := q.until
	q.rings = at
	q.alarm = l.clock.AfterFunc(at.Sub(now), func() {
		l.mu.Lock()
		defer l.unlock()
		if q.alarm == nil || q.rings != at {
			return
		}
		q.alarm = nil
		switch now := l.clock.Now(); {
		case !q.headParked():
		case q.until > now:
			l.setAlarm(q, name, now)
		default:
			l.wakeHead(name)
		}
	})
}

// batch is a hold in the store that goes from one holder of this Locker to the
// next without a request to the store, under PassLocally. All these holders
// share it. It is guarded by mu.
type batch struct {
	until    driver.Instant // the last moment at which a holder may follow
	left     int            // how many holders may follow
	reserved bool           // the store keeps their fences free
}

// open reports whether another holder may follow.
func (b *batch) open(now driver.Instant) bool { return b != nil && b.left > 0 && now < b.until }

// newBatch is called when the store has granted a lock.
func (l *Locker) newBatch(now driver.Instant) *batch {
	if l.cfg.passMost == 0 || l.handover.raiser == nil && l.guarantees.Fence != driver.NoFence {
		return nil
	}
	return &batch{until: now.Add(l.cfg.passFor), left: l.cfg.passMost - 1}
}

// follows reports whether a may take over the hold of h as it stands in the
// store: what the store says about h is true of a, and a asks for nothing that
// only a grant can give.
func (a *attempt) follows(h *hold) bool {
	n := a.h
	return !n.shared && n.ttl == h.ttl && n.label == h.label && n.plan == 0 && h.plan == 0 &&
		a.set.holdAtLeast == 0 && a.set.fenceAbove <= h.fence
}
