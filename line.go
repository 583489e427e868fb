package padlock

import (
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
	ready    chan struct{} // of one: it is at the head, or has the lock, or the store answered
	gone     bool
	handover handoverTurn
	g        driver.Grant // the store's answer
	err      error
	a        *attempt
}

// answer is called by the store.
func (t *turn) answer(g driver.Grant, err error) {
	t.g, t.err = g, err
	t.ready <- struct{}{}
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
	if !l.parkHead(q) {
		q.parked = false
		q.line[0].ready <- struct{}{}
	}
}

// A lock that is given back may go to the next in the line of its Locker
// directly: with one request for both (driver.Passer), or, with PassLocally,
// with none. So the head of a line behind such a lock does not join the store's
// queue at once. It is parked, and joins if the lock is not given back soon.

// parkFor is how long the head of a line waits for a holder of its Locker
// before it joins the store's queue: longer than a few hand-overs, and no time
// to speak of for those of other processes who then stand before it.
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
	l.handover.passer, _ = l.store.(driver.Passer)
	l.handover.raiser, _ = l.store.(driver.FenceRaiser)
	if l.handover.passer != nil || l.cfg.passMost > 0 {
		l.handover.holders = make(map[string]*hold)
	}
}

// handoverTurn is how a turn gets a lock that was given back. It is guarded by mu until
// ready says that it is this turn's.
type handoverTurn struct {
	passing bool // it is being passed on
	given   bool // attempt.h is the lock
	spent   bool // the store passed it on to somebody else, or perhaps not
	unsure  bool
}

// parking is how long the head of a line is parked. It is guarded by mu.
type parking struct {
	parked bool
	until  driver.Instant
	rings  driver.Instant // when the alarm does
	alarm  func() bool    // stops it; nil when none is set
}

func (p *parking) over() {
	p.parked = false
	if p.alarm != nil {
		p.alarm()
		p.alarm = nil
	}
}

// passes reports whether the lock that a has been granted may be passed on.
func (a *attempt) passes() bool {
	return !a.h.shared && a.set.holdAtLeast == 0 && a.h.coolDown == 0
}

// unlist is called when h ends or becomes a lock that is not passed on. If it is
// to wake whoever is parked behind it: nobody else will. The caller holds mu.
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
	if q := l.queues[name]; q != nil && q.parked && !q.line[0].handover.passing {
		q.parked = false
		q.line[0].ready <- struct{}{}
	}
}

// mayPark reports whether who wants name alone is likely to be parked. The caller
// holds mu.
func (l *Locker) mayPark(name string) bool {
	if l.handover.holders == nil {
		return false
	}
	h := l.handover.holders[name]
	return h != nil && (l.handover.passer != nil || h.batch.open(l.clock.Now()))
}

// parkHead lets the head of q wait for a holder of this Locker, and reports whether
// there is one to wait for. The caller holds mu.
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
	q.parked = true
	l.setAlarm(q, a.h.name, now)
	return true
}

// setAlarm makes sure that q is looked at when its head was parked for long
// enough. An alarm that is set for earlier stays: it will set the next one.
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
		case !q.parked:
		case q.until > now:
			l.setAlarm(q, name, now)
		default:
			l.wakeHead(name)
		}
	})
}

// batch is a hold in the store that goes from one holder of this Locker to the
// next without a word to the store, under PassLocally. It is guarded by mu, and
// goes with the lock.
type batch struct {
	until    driver.Instant // then nobody takes it over any more
	left     int            // how many may follow
	reserved bool           // fences for them
}

// open reports whether another may follow.
func (b *batch) open(now driver.Instant) bool { return b != nil && b.left > 0 && now < b.until }

// newBatch is called when the store has granted a lock.
func (l *Locker) newBatch(now driver.Instant) *batch {
	if l.cfg.passMost == 0 || l.handover.raiser == nil && l.guarantees.Fence != driver.NoFence {
		return nil
	}
	return &batch{until: now.Add(l.cfg.passFor), left: l.cfg.passMost - 1}
}

// follows reports whether a may take over the hold of h as it stands in the
// store: whatever others are told of h is true of a, and a asks for nothing
// that only a grant can give.
func (a *attempt) follows(h *hold) bool {
	n := a.h
	return !n.shared && n.ttl == h.ttl && n.label == h.label && n.plan == 0 && h.plan == 0 &&
		a.set.holdAtLeast == 0 && a.set.fenceAbove <= h.fence
}
