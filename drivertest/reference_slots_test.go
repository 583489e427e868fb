package drivertest

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

const (
	slotAlwaysFirst        bug = "AcquireSlot looks at the first permit only"
	slotOvertakes          bug = "AcquireSlot does not look at the gate"
	slotRepeatTakesAnother bug = "AcquireSlot, repeated, takes another permit"
	slotUnchecked          bug = "AcquireSlot does not check its request"
	fullSlotsTaken         bug = "a full store says that all permits are taken"
)

var slotBugs = []bug{slotAlwaysFirst, slotOvertakes, slotRepeatTakesAnother, slotUnchecked, slotRefusedForEver, fullSlotsTaken}

// AcquireSlot implements fast.SlotTaker.
func (s relay) AcquireSlot(ctx context.Context, r driver.Request, n int, ahead bool) (slot int, g driver.Grant, err error) {
	if err := s.checkSlots(&r, n); err != nil {
		return 0, g, err
	}
	err = s.ask(ctx, func() error {
		slot, g, err = s.acquireSlot(r, n, ahead)
		return err
	})
	if err != nil {
		return 0, driver.Grant{}, s.blab(err, r.Token.Text())
	}
	return slot, g, nil
}

func (s relay) checkSlots(r *driver.Request, n int) error {
	if s.is(slotUnchecked) {
		return nil
	}
	if err := fast.CheckSlots(r.Name, n, &s.w.g); err != nil {
		return err
	}
	if r.Shared || r.Replaces.Text() != "" || r.FenceAbove != 0 {
		return fmt.Errorf("%w: request: any permit is exclusive, and without Replaces and FenceAbove", driver.ErrInvalid)
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
		r.Name = fast.SlotName(name, i)
		e := w.entry(r.Name)
		if h := w.live(e, r.Token.Text()); h != nil && !s.is(slotRepeatTakesAnother) {
			g, err := s.repeat(e, h, &r)
			return i, g, err
		}
		if free < 0 && w.free(e, &r) && len(e.queue) == 0 {
			free = i
		}
		all.Holds = append(all.Holds, w.reports(e, "")...)
	}
	gate := w.entry(fast.SlotGate(name, n))
	shut := len(gate.queue) > 0 || !w.free(gate, &r)
	first := w.entry(fast.SlotName(name, 0))
	_, refused := first.refusals[r.Token.Text()]
	if free < 0 || w.full && s.is(fullSlotsTaken) || shut && !ahead && !s.is(slotOvertakes) || refused && s.is(slotRefusedForEver) {
		s.noteRefusal(first, &r)
		return 0, driver.Grant{}, all
	}
	r.Name = fast.SlotName(name, free)
	g, err := s.acquire(&r)
	return free, g, err
}
