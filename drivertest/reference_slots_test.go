package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

const (
	slotAlwaysFirst        bug = "AcquireSlot looks at the first permit only"
	slotOvertakes          bug = "AcquireSlot does not look at the gate"
	slotRepeatTakesAnother bug = "AcquireSlot, repeated, takes another permit"
	slotUnchecked          bug = "AcquireSlot does not check its request"
	slotWaitSpins          bug = "WaitSlot returns at once"
	slotWaitWatchesOne     bug = "WaitSlot watches the first permit only"
	slotAwaitOvertakes     bug = "AwaitSlot does not wait for the gate"
	slotAwaitKeepsGate     bug = "AwaitSlot keeps the gate when it returns a permit"
	slotAwaitKeepsPlace    bug = "AwaitSlot keeps the gate when its context ends"
)

var slotBugs = []bug{slotAlwaysFirst, slotOvertakes, slotRepeatTakesAnother, slotUnchecked, slotWaitSpins, slotWaitWatchesOne, slotAwaitOvertakes, slotAwaitKeepsGate, slotAwaitKeepsPlace, slotsLookedAtRarely}

// AcquireSlot implements driver.SlotTaker.
func (s relay) AcquireSlot(ctx context.Context, r driver.Request, n int, ahead bool) (slot int, g driver.Grant, err error) {
	if err := s.checkSlots(&r, n); err != nil {
		return 0, g, err
	}
	err = s.ask(ctx, func() error {
		slot, g, err = s.acquireSlot(r, n, ahead)
		return err
	})
	if err != nil {
		return 0, driver.Grant{}, s.blab(err, r.Token)
	}
	return slot, g, nil
}

func (s relay) checkSlots(r *driver.Request, n int) error {
	if s.is(slotUnchecked) {
		return nil
	}
	if err := driver.CheckSlots(r.Name, n, &s.w.g); err != nil {
		return err
	}
	if r.Shared || r.Replaces != "" {
		return fmt.Errorf("%w: request: a permit is exclusive and replaces nothing", driver.ErrInvalid)
	}
	return s.validate(r)
}

func (s relay) acquireSlot(r driver.Request, n int, ahead bool) (int, driver.Grant, error) {
	w, free, name := s.w, -1, r.Name
	if s.is(slotAlwaysFirst) {
		n = 1
	}
	all := &driver.HeldError{Waiters: -1}
	for i := range n {
		r.Name = driver.SlotName(name, i)
		e := w.entry(r.Name)
		if h := w.live(e, r.Token); h != nil && !s.is(slotRepeatTakesAnother) {
			g, err := s.repeat(e, h, &r)
			return i, g, err
		}
		if free < 0 && w.free(e, &r) && len(e.queue) == 0 {
			free = i
		}
		all.Holds = append(all.Holds, w.reports(e, "")...)
	}
	gate := w.entry(driver.SlotGate(name, n))
	shut := len(gate.queue) > 0 || !w.free(gate, &r)
	if free < 0 || shut && !ahead && !s.is(slotOvertakes) {
		return 0, driver.Grant{}, all
	}
	r.Name = driver.SlotName(name, free)
	g, err := s.acquire(&r)
	return free, g, err
}

// WaitSlot implements driver.SlotWaiter.
func (s relay) WaitSlot(ctx context.Context, r driver.Request, n int) error {
	if err := s.checkSlots(&r, n); err != nil {
		return err
	}
	if s.is(slotWaitWatchesOne) {
		n = 1
	}
	for {
		free := s.is(slotWaitSpins)
		err := s.ask(ctx, func() error {
			for i := range n {
				e := s.w.entry(driver.SlotName(r.Name, i))
				free = free || s.w.free(e, &r)
			}
			return nil
		})
		if free || err != nil {
			return err
		}
		select {
		case <-time.After(s.slotPause()):
		case <-ctx.Done():
		}
	}
}

// slotPause returns how long a waiter sleeps between two looks at the permits.
func (s relay) slotPause() time.Duration {
	switch {
	case s.is(slotsLookedAtRarely):
		return 2 * time.Second
	case s.w.stall != nil:
		return 50 * time.Millisecond // each look may be delayed
	}
	return 5 * time.Millisecond
}

// AwaitSlot implements driver.SlotQueuer: it takes the gate, and waits for a permit. The permit is
// reserved: its lease is short until the waiter claims it.
func (s relay) AwaitSlot(ctx context.Context, r driver.Request, n int) (slot int, g driver.Grant, err error) {
	if err := s.checkSlots(&r, n); err != nil {
		return 0, g, err
	}
	gate := r
	gate.Name = driver.SlotGate(r.Name, n)
	pause := s.slotPause()
	if !s.is(slotAwaitOvertakes) {
		if err := s.takeGate(ctx, gate); err != nil {
			s.Release(context.WithoutCancel(ctx), gate.Name, gate.Token, 0)
			return 0, g, err
		}
	} else if s.firstAt(gate.Name) {
		pause = 5 * time.Second // so that the second caller overtakes the first
	}
	defer func() {
		if err == nil && s.is(slotAwaitKeepsGate) || err != nil && s.is(slotAwaitKeepsPlace) {
			return
		}
		_, released := s.Release(context.WithoutCancel(ctx), gate.Name, gate.Token, 0)
		err = errors.Join(err, released)
	}()
	for {
		slot, g, err = s.AcquireSlot(ctx, reservation(r), n, true)
		if !errors.Is(err, driver.ErrHeld) {
			return slot, g, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, driver.Grant{}, ctx.Err()
		}
	}
}

func reservation(r driver.Request) driver.Request {
	r.TTL = min(r.TTL, driver.MaxReservation)
	return r
}

func (s relay) takeGate(ctx context.Context, gate driver.Request) error {
	for {
		g, err := s.ref.Wait(ctx, gate, true)
		if err != nil {
			return err
		}
		if !handed(g) {
			continue
		}
		if _, err := s.Acquire(ctx, gate); !errors.Is(err, driver.ErrHeld) { // else the reservation has lapsed
			return err
		}
	}
}

// firstAt reports whether this is its first call for the name.
func (s relay) firstAt(name string) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	e := s.w.entry(name)
	e.refused++
	return e.refused == 1
}
