package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var abilityCases = []testCase{
	{
		name:   "guarantees/abilities",
		clause: "A method of an optional interface returns errors.ErrUnsupported if Guarantees.Lacks names it, and only then.",
		about: "Guarantees.Lacks AbilityWaiter AbilitySlotTaker AbilityBatchExtender AbilityPasser AbilityConverter AbilityInspect AbilityList " +
			"AbilityBreak AbilityFenceRaiser AbilityFileSharer AbilityStoreID AbilitySamePlace AbilityRecorder AbilityReporter",
		f: func(c *check) {
			free := c.request(c.newName())
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, a := range c.abilityCalls(free, l.req) {
				switch err := a.call(); {
				case c.can(a.ability) && errors.Is(err, errors.ErrUnsupported):
					c.errorf("%s returns %v, and Guarantees.Lacks does not name it", a.what, err)
				case !c.can(a.ability) && !errors.Is(err, errors.ErrUnsupported):
					c.errorf("Guarantees.Lacks names %s, and it returns: %v", a.what, err)
				}
			}
		},
	},
}

// abilityCall is a call of a method that the store may lack.
type abilityCall struct {
	what    string
	ability driver.Ability
	call    func() error
}

// abilityCalls returns a call of each optional method that the store implements. The name of free
// is free, and held has a hold.
func (c *check) abilityCalls(free, held driver.Request) (all []abilityCall) {
	ctx, s := c.ctx, c.a.store
	add := func(has bool, what string, a driver.Ability, call func() error) {
		if has {
			all = append(all, abilityCall{what, a, call})
		}
	}
	other := free
	other.Token = newToken()
	w, ok := inside[driver.Waiter](s)
	add(ok, "Wait", driver.AbilityWaiter, func() error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := w.Wait(short, free, false)
		return err
	})
	slots, ok := inside[driver.SlotTaker](s)
	add(ok, "AcquireSlot", driver.AbilitySlotTaker, func() error {
		r := c.request(c.slotted())
		slot, _, err := slots.AcquireSlot(ctx, r, 1, true)
		c.a.forget(driver.SlotName(r.Name, slot), r.Token)
		return err
	})
	batch, ok := inside[driver.BatchExtender](s)
	add(ok, "ExtendBatch", driver.AbilityBatchExtender, func() error {
		_, err := batch.ExtendBatch(ctx, []driver.Extension{{Name: held.Name, Token: held.Token}})
		return err
	})
	p, ok := inside[driver.Passer](s)
	add(ok, "Pass", driver.AbilityPasser, func() error { _, _, err := p.Pass(ctx, newToken(), other); return err })
	convert, ok := inside[driver.Converter](s)
	add(ok, "Convert", driver.AbilityConverter, func() error { _, err := convert.Convert(ctx, held); return err })
	admin, ok := inside[driver.Admin](s)
	add(ok, "Inspect", driver.AbilityInspect, func() error { _, err := admin.Inspect(ctx, held.Name); return err })
	add(ok, "List", driver.AbilityList, func() error { _, err := admin.List(ctx, held.Name); return err })
	add(ok, "Break", driver.AbilityBreak, func() error { _, err := admin.Break(ctx, free.Name, driver.MaxFence-1); return err })
	raise, ok := inside[driver.FenceRaiser](s)
	add(ok, "RaiseFence", driver.AbilityFenceRaiser, func() error { return raise.RaiseFence(ctx, held.Name, held.Token, 1) })
	files, ok := inside[driver.FileSharer](s)
	add(ok, "File", driver.AbilityFileSharer, func() error { _, err := files.File(free.Name, free.Token); return err })
	places, ok := inside[driver.Places](s)
	add(ok, "StoreID", driver.AbilityStoreID, func() error { _, err := places.StoreID(ctx); return err })
	records, ok := inside[driver.Recorder](s)
	add(ok, "Records", driver.AbilityRecorder, func() error { _, err := records.Records(ctx, free.Name); return err })
	reports, ok := inside[driver.Reporter](s)
	add(ok, "Status", driver.AbilityReporter, func() error { _, err := reports.Status(ctx); return err })
	return all
}

// inside finds the interface T of the store or of a store inside it, even if the store lacks it.
func inside[T any](s driver.Store) (t T, ok bool) {
	for s != nil {
		if t, ok = s.(T); ok {
			return t, true
		}
		w, wraps := s.(interface{ Unwrap() driver.Store })
		if !wraps {
			break
		}
		s = w.Unwrap()
	}
	return t, false
}
