package padlock

import (
	"errors"
	"fmt"
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// taking is the state of a lockSet while AcquireAll or DoAll takes the locks.
type taking struct {
	*lockSet
	set   settings
	start driver.Instant // only if Wait is given
}

// takeAll takes all locks, or none.
func (s *lockSet) takeAll(names []string, opts []Option) error {
	t := taking{lockSet: s, set: s.l.cfg.defaults}
	if len(opts) > 0 {
		set := t.set // a copy on the heap, because the options get a pointer to it
		set.change(opts, false, &s.l.guarantees)
		t.set = set
	}
	var room [4]string // memory for the sorted names; usually there are few
	names = append(room[:0], names...)
	slices.Sort(names)
	names = slices.Compact(names)
	names, err := t.withFolders(names)
	if err == nil {
		err = t.check(names)
	}
	if err != nil {
		return failed(OpAcquire, "", err)
	}
	if t.set.wait > 0 {
		t.start = s.l.clock.Now()
	}
	if err := t.takeEach(names); err != nil {
		s.abandon()
		return err
	}
	if err = s.firstLoss(); err == nil && t.set.paths {
		err = t.raiseFolders()
	}
	if err != nil {
		s.abandon()
		return err
	}
	if t.set.maxHold > 0 || t.set.holdAtLeast > 0 {
		t.setTimes()
	}
	return nil
}

// takeEach takes the locks on all names or, with Weight, several permits of the only name.
func (t *taking) takeEach(names []string) error {
	if t.set.weight != 0 {
		return t.takePermits(names[0])
	}
	t.holds = make([]*hold, 0, len(names))
	for _, name := range names {
		if err := t.takeNext(name); err != nil {
			return err
		}
	}
	return nil
}

// setTimes implements the options HoldAtMost and HoldAtLeast. It is called when all locks are held,
// so that the wait for the later locks takes nothing from the time of the earlier ones. A call that
// fails leaves no name taken.
func (t *taking) setTimes() {
	l := t.l
	l.mu.Lock()
	defer l.unlock()
	now := l.clock.Now()
	for _, h := range t.holds {
		if t.set.maxHold > 0 {
			h.limit(endOf(now, t.set.maxHold))
		}
		if t.set.holdAtLeast > 0 {
			h.atLeast = now.Sub(h.grantedAt) + t.set.holdAtLeast
		}
	}
}

// check finds the errors that concern the whole call, not a single name.
func (t *taking) check(names []string) error {
	switch {
	case len(names) == 0:
		return fmt.Errorf("%w: no name is given", ErrInvalid)
	case !t.set.token.IsZero():
		return errTokenOfSeveral
	case t.set.weight != 0:
		return t.checkWeight(names)
	case t.set.slots != 0:
		return fmt.Errorf("%w: Slots is for one name", ErrInvalid)
	case t.set.paths && t.set.shared:
		return errPathShared
	case t.set.paths && (t.set.coolDown != 0 || t.set.holdAtLeast != 0):
		return errPathCool
	}
	if t.set.wrong != nil {
		return t.set.wrong
	}
	where := t.l.locations
	if where == nil || !t.l.guarantees.Hashed {
		return nil
	}
	at := make(map[string]string, len(names))
	for _, name := range names {
		place, err := where.Location(name)
		switch other, taken := at[place]; {
		case err != nil:
			return err
		case taken:
			return fmt.Errorf("%w: the names %s and %s share one lock in this store", ErrInvalid, quote(other), quote(name))
		}
		at[place] = name
	}
	return nil
}

// takeNext takes the lock on name, in addition to the locks that t has.
func (t *taking) takeNext(name string) error {
	a := new(attempt)
	a.method = method{op: OpAcquire, within: t.within}
	a.l, a.ctx, a.set, a.outer = t.l, t.ctx, t.set, t.innermost()
	if t.set.paths {
		t.preparePath(a, name)
	}
	if a.set.wait > 0 {
		a.set.wait = max(0, t.set.wait-t.l.clock.Now().Sub(t.start))
	}
	if t.l.cfg.observers != nil {
		a.ctx = t.withValues(a.ctx)
		a.observe(name)
	}
	wait, err := false, a.check(name)
	if err == nil {
		err = a.prepare(name)
	}
	if err == nil {
		a.h.atLeast, a.set.maxHold = 0, 0 // see setTimes
		wait, err = a.askOnce()
	}
	if wait {
		return t.waitFor(a, name)
	}
	return t.addTaken(a, name, err)
}

// waitFor lets the attempt wait in the line. The wait also ends when a hold of t is over.
func (t *taking) waitFor(a *attempt, name string) error {
	waiting, stop := t.until(a.ctx)
	defer stop(nil)
	a.ctx = waiting
	err := a.waitForLock()
	if err == nil {
		return t.addTaken(a, name, nil)
	}
	// If a hold of t is over, its end may have ended the wait, even if ctx has ended since.
	lost := t.firstLoss()
	if errors.Is(lost, ErrClosed) || lost == nil && t.within && t.l.closing.Err() != nil {
		err, lost = ErrClosed, nil
	}
	if err = t.addTaken(a, name, err); lost != nil {
		return lost
	}
	return err
}

// addTaken adds the hold of the attempt a to t. If err is not nil, the attempt has failed, and
// addTaken ends it and returns the error for the caller.
func (t *taking) addTaken(a *attempt, name string, err error) error {
	h, err := a.done(err)
	if err != nil {
		return a.refuse(name, err)
	}
	t.holds = append(t.holds, h)
	return nil
}
