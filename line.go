package padlock

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// line is the line of goroutines of one Locker that wait for one name. Only the head of the line
// talks to the store, so the store sees one waiter even if a thousand goroutines wait.
type line struct {
	turns []*turn // turns[0] is the head

	// If a waiter gives up before it has asked the store, its error names the last known holder.
	// One of the next two fields describes that holder, and the other one is nil:
	held   error // what the store reported: a *HeldError, or ErrHeld without details
	holder *hold // the hold, if it belongs to this Locker
}

// turn is the place of one waiter in a line.
type turn struct {
	ready chan struct{} // closed by wake
	state turnState
	gone  bool // the turn is out of the line: the waiter gave up, or has the lock
	a     *attempt
}

// turnState is the state of a turn. Locker.mu guards it. The transitions are:
//
//	lined   → parked, called, passing
//	parked  → passing, called
//	passing → called, given, spent, unsure
//
// The other states are final. So once turn.ready is closed, the waiter reads the state without
// locking mu.
//
// A waiter may give up, for example because its context ends. Then its turn leaves the line. A turn
// in turnPassing stays in that state even if its waiter gives up.
//
// Close changes no state. After Close no turn enters turnPassing or turnGiven. If the store grants
// the lock to a turn in turnPassing after Close, the turn enters turnUnsure.
//
// Close waits for all of Locker.calls. A waiter counts in Locker.calls until it takes the
// lock or gives up. The Release that has chosen a turn counts until the turn leaves turnPassing.
type turnState int8

const (
	// turnLined: the waiter has taken its place in the line (takePlace), and waits. But if the line
	// was empty and the turn was not parked, the waiter asks the store at once.
	turnLined turnState = iota
	// turnParked: the turn is the head of the line. The waiter waits, because a holder of this
	// Locker may pass its lock on (parkHead). If the waiter gives up, the next turn is parked or
	// called.
	turnParked
	// turnPassing: a Release has chosen the turn (nextInLine). The waiter waits. If it gives up,
	// the goroutine that has sent the request begins a clean-up if necessary.
	turnPassing
	// turnCalled: the turn is the head of the line, and its waiter asks the store (callHead). If a
	// Release cannot pass the lock on, the turn that it has chosen gets this state too (passOn,
	// passedTo). If the waiter gives up, the next turn is parked or called.
	turnCalled
	// turnGiven: the waiter has the lock, which was passed on (passedTo). If the waiter gave up in
	// the meantime, it releases the lock, unless Close does so.
	turnGiven
	// turnSpent: the store did not pass the lock on to the waiter. The waiter asks the store with a
	// new token.
	turnSpent
	// turnUnsure: the waiter does not have the lock, but the store may have granted it. The store's
	// reply was lost, or it came after Close or after the end of the lease. The waiter begins a
	// clean-up and asks the store with a new token. If the waiter gives up, it begins the clean-up
	// and returns an error that is also ErrUncertain.
	turnUnsure
)

// leaveLineLocked takes the turn of this attempt out of the line. If that turn was the head, the
// next turn becomes the head. The caller holds mu.
func (a *attempt) leaveLineLocked() {
	l, ln, t := a.l, a.line, a.place
	if t.gone {
		return
	}
	t.gone = true
	if !a.hidden {
		l.stats.waiting--
	}
	i := slices.Index(ln.turns, t)
	ln.turns = slices.Delete(ln.turns, i, i+1)
	switch {
	case len(ln.turns) == 0:
		delete(l.lines, a.h.name)
	case i == 0:
		l.nextHead(ln)
	}
}

// nextHead is called when another turn has become the head of the line. It parks that turn, or
// makes its waiter ask the store. If the turn is in turnPassing, nextHead does nothing, because a
// request for the turn is under way. The caller holds mu.
func (l *Locker) nextHead(ln *line) {
	if ln.turns[0].state == turnLined && !l.parkHead(ln) {
		ln.callHead()
	}
}

// wake gives t its final state, and lets its waiter go on. It never blocks, because it closes a
// channel. The caller holds mu.
func (t *turn) wake(final turnState) {
	t.state = final
	close(t.ready)
}

// callHead lets the head ask the store. The caller holds mu.
func (ln *line) callHead() {
	ln.turns[0].wake(turnCalled)
}

// A Release may give the lock directly to the first waiter in the line of its Locker. One request
// then releases the lock and grants it again (fast.Passer). So if the present holder is of this
// Locker, the first waiter is parked: it waits for such a Release. It joins the store's queue only
// if the lock is not released soon.

// parkFor is how long the head of a line is parked before it joins the store's queue. That is long
// enough for several hand-overs in this process. It is also short enough: if waiters of other
// processes join the store's queue in the meantime, the head loses little.
const parkFor = 2 * time.Millisecond

// handoverState holds what a Locker needs to pass locks on.
type handoverState struct {
	passer  fast.Passer      // nil if the store cannot pass locks on
	holders map[string]*hold // the exclusive holds, by name; nil if this Locker never passes locks on
}

func (l *Locker) initHandover() {
	if l.guarantees.InProcess {
		return // the queue of a store in this process is just as fast
	}
	l.handover.passer, _ = driver.As[fast.Passer](l.store)
	if l.handover.passer != nil {
		l.handover.holders = make(map[string]*hold)
	}
}

// mayPassOn reports whether a Release of h may pass the lock on, if it begins no cool-down.
func (h *hold) mayPassOn() bool { return h.atLeast == 0 && h.coolDown == 0 && !h.detached }

// unlist removes h from the holders, so that it is not passed on. If the head of the line is parked
// to wait for the lock of h, the head now asks the store. The caller holds mu.
func (l *Locker) unlist(h *hold) {
	if l.handover.holders[h.name] != h {
		return
	}
	delete(l.handover.holders, h.name)
	if ln := l.lines[h.name]; ln != nil && ln.headParked() {
		ln.callHead()
	}
}

// nextInLine returns the turn of the waiter in ln that gets the lock of h, which is being released.
// It returns nil if h is not passed on: if h is over or cools down, or if Close has begun. Then the
// head of the line, if it is parked for h, asks the store when h ends. The caller holds mu.
//
// The turn is in the state turnPassing. The caller must end that state with passingOver.
func (h *hold) nextInLine(ln *line, keep time.Duration) *turn {
	l := h.locker
	if keep != 0 || !h.mayPassOn() || l.closed || l.handover.holders[h.name] != h || !ln.headParked() {
		return nil
	}
	t := ln.turns[0]
	t.state = turnPassing
	return t
}

// passingOver ends the state turnPassing of t. It gives t the new state and wakes the waiter. If
// the waiter has given up, the state stays as it is. The caller holds mu.
func (t *turn) passingOver(newState turnState) {
	// A waiter that got the lock has left the line. So t.gone may be true in turnGiven.
	if !t.gone || newState == turnGiven {
		t.wake(newState)
	}
}

// headParked reports whether the head of ln is parked and no Release has chosen it. The caller
// holds mu.
func (ln *line) headParked() bool { return len(ln.turns) > 0 && ln.turns[0].state == turnParked }

// parkHead parks the head of ln if a holder of this Locker may pass its lock on to the head. It
// reports whether it has parked the head. The caller holds mu.
func (l *Locker) parkHead(ln *line) bool {
	a := ln.turns[0].a
	h := l.handover.holders[a.h.name]
	if h == nil {
		return false
	}
	if ln.holder != h {
		ln.held, ln.holder = nil, h
	}
	if !h.mayPassOn() || a.request.Shared {
		return false
	}
	t := ln.turns[0]
	t.state = turnParked
	// Nothing stops this timer. If it is late, another turn is the head, or the line is empty.
	l.clock.AfterFunc(parkFor, func() {
		l.mu.Lock()
		defer l.unlock()
		if ln.headParked() && ln.turns[0] == t {
			ln.callHead()
		}
	})
	return true
}
