package padlock

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A lock that is given back may go to the next in the line of its Locker
// directly: with one request for both (driver.Passer), or, with PassLocally,
// with none. So the head of a line behind such a lock does not join the store's
// queue at once. It is parked, and joins if the lock is not given back soon.

// parkFor is how long the head of a line waits for a holder of its Locker
// before it joins the store's queue: longer than a few hand-overs, and no time
// to speak of for those of other processes who then stand before it.
const parkFor = 2 * time.Millisecond

// heirs is what a Locker needs to pass locks on.
type heirs struct {
	passer  driver.Passer      // nil where the store is none
	raiser  driver.FenceRaiser // which reserves fences for PassLocally
	holders map[string]*hold   // those that may be passed on, by name; nil where none is
	unfit   error              // what is wrong with PassLocally
}

func (l *Locker) initHeirs() {
	if l.unfit = l.cfg.checkPassing(); l.unfit != nil || l.guarantees.InProcess {
		return // its own queue is as good
	}
	l.passer, _ = l.store.(driver.Passer)
	l.raiser, _ = l.store.(driver.FenceRaiser)
	if l.passer != nil || l.cfg.passMost > 0 {
		l.holders = make(map[string]*hold)
	}
}

// heir is how a turn gets a lock that was given back. It is guarded by mu until
// ready says that it is this turn's.
type heir struct {
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

// apart is called when h ends or becomes a lock that is not passed on. If it is
// to wake whoever is parked behind it: nobody else will. The caller holds mu.
func (l *Locker) apart(h *hold, wake bool) {
	if l.holders == nil || l.holders[h.name] != h {
		return
	}
	delete(l.holders, h.name)
	if wake {
		l.wakeHead(h.name)
	}
}

// wakeHead sends a parked head to the store. The caller holds mu.
func (l *Locker) wakeHead(name string) {
	if q := l.queues[name]; q != nil && q.parked && !q.line[0].heir.passing {
		q.parked = false
		q.line[0].ready <- struct{}{}
	}
}

// mayPark reports whether who wants name alone is likely to be parked. The caller
// holds mu.
func (l *Locker) mayPark(name string) bool {
	if l.holders == nil {
		return false
	}
	h := l.holders[name]
	return h != nil && (l.passer != nil || h.batch.open(l.clock.Now()))
}

// park lets the head of q wait for a holder of this Locker, and reports whether
// there is one to wait for. The caller holds mu.
func (l *Locker) park(q *queue) bool {
	a := q.line[0].a
	h := l.holders[a.h.name]
	if h == nil {
		return false
	}
	now := l.clock.Now()
	switch {
	case h.batch.open(now) && a.follows(h):
		q.until = h.batch.until
	case l.passer != nil && !a.request.Shared:
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

// called goes on with an attempt that was parked or stood in line, when ready
// says that something is up: it has the lock, or goes to the store.
func (a *attempt) called() error {
	t := &a.place.heir
	if t.given {
		return nil
	}
	if t.unsure {
		a.doubt()
	}
	if t.spent {
		a.renewToken()
	}
	return a.head()
}

// withdraw leaves the line. A lock that was passed on in the same instant is
// given back.
func (a *attempt) withdraw() {
	l := a.l
	l.mu.Lock()
	defer l.unlock()
	if !a.place.heir.given {
		a.leaveLineLocked()
		return
	}
	l.end(a.h, ErrReleased)
	l.wakeHead(a.h.name)
	a.request.Token, a.late = a.h.token, true
	if !a.within {
		l.attempts++ // which refused takes back
	}
}

// chooseHeir returns who is to have the name of a lock that is being given
// back, or nil. Until its passing is over it stays where it is; Close waits for
// it. The caller holds mu.
func (l *Locker) chooseHeir(name string) *turn {
	q := l.queues[name]
	if q == nil || !q.parked || l.closed {
		return nil
	}
	t := q.line[0]
	if t.heir.passing {
		return nil
	}
	t.heir.passing = true
	l.attempts++
	return t
}

// passingOver ends the passing on to t, which gets the lock or goes to the
// store. The caller holds mu.
func (l *Locker) passingOver(t *turn) {
	t.heir.passing = false
	if t.heir.given {
		t.ready <- struct{}{}
	} else if !t.gone {
		l.wakeHead(t.a.h.name)
	}
	l.attemptOver()
}

// passed is what became of a release that was to pass the lock on.
type passed struct {
	done   bool
	out    driver.Outcome
	unsure bool // it may have been carried out
	asked  int  // requests
}

// passOn gives h to t, if it can. h is over here; it was usable until then.
func (h *hold) passOn(t *turn, usable driver.Instant) passed {
	l := h.locker
	asked, done := h.passLocally(t, usable)
	if done {
		return passed{done: true, out: driver.Released}
	}
	l.mu.Lock()
	r, passer := t.a.request, l.passer
	if passer == nil || asked > 0 || t.gone || r.Shared {
		l.passingOver(t)
		l.unlock()
		return passed{asked: asked}
	}
	l.unlock()
	sent := l.clock.Now()
	out, g, err := passer.Pass(context.Background(), h.token, r)
	l.passedTo(t, &r, sent, g, err)
	if errors.Is(err, errors.ErrUnsupported) {
		return passed{}
	}
	return passed{err == nil, out, err != nil && !definite(err), 1}
}

// passedTo tells t what the store answered to Pass. A grant that nobody takes
// is cleaned up.
func (l *Locker) passedTo(t *turn, r *driver.Request, sent driver.Instant, g driver.Grant, err error) {
	granted, unsure := err == nil && g.TTL > 0, err != nil && !definite(err)
	now, left := l.clock.Now(), false
	l.mu.Lock()
	if t.heir.spent = !errors.Is(err, errors.ErrUnsupported); !t.heir.spent {
		l.passer = nil
	}
	switch {
	case granted && !t.gone && !l.closed && l.keeper.granted(t.a.h, sent, now, g, t.a.set.maxHold):
		t.heir.given = true
		t.a.settle(now)
	case t.gone:
		left = granted || unsure
	default:
		t.heir.unsure = granted || unsure
	}
	if !left {
		l.passingOver(t)
	}
	l.unlock()
	if left {
		l.cleaner.add(cleanUp{name: r.Name, token: r.Token}, r.TTL)
		l.mu.Lock()
		l.passingOver(t)
		l.unlock()
	}
}
