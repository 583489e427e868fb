package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var abilityCases = []testCase{
	{
		name:   "guarantees/unsupported",
		clause: "Detached, shared mode, Replaces, cool-downs and promotion that Guarantees do not promise return errors.ErrUnsupported and change nothing: no store silently grants something else.",
		about:  "Guarantees.Detached Guarantees.Shared Guarantees.Bound Guarantees.CoolDown Guarantees.Promotion PromotionNone Request.Detached Request.Shared Request.Replaces Store.Release",
		f:      unsupported,
	},
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
	{
		name:   "status/findings",
		clause: "Status returns findings with a name and a value each, or an error if the server could not be asked.",
		about:  "Reporter.Status Finding.Name Finding.Value Unknown",
		needs:  []need{reports},
		f: func(c *check) {
			found, err := c.a.Status(c.ctx)
			if err != nil {
				c.failf("Status: %v", err)
			}
			for _, f := range found {
				if f.Name == "" || f.Value == "" {
					c.errorf("a finding without a name or a value: %+v", f)
				}
			}
			if _, err := c.a.Status(canceled()); err != nil && !errors.Is(err, context.Canceled) {
				c.errorf("Status with a cancelled context: want context.Canceled, got: %v", err)
			}
		},
	},
}

func unsupported(c *check) {
	l, name := c.take(c.a, c.request(c.newName()), "of a free name"), c.newName()
	acquire := func(r driver.Request) func() error {
		return func() error { _, err := c.b.Acquire(c.ctx, r); return err }
	}
	detached := c.request(name)
	detached.Detached = true
	binds := c.g.Bound != driver.BoundToNothing
	for _, u := range []struct {
		what  string
		lacks bool
		call  func() error
	}{
		{"Acquire with Detached", binds && !c.g.Detached, acquire(detached)},
		{"Acquire of a shared hold", !c.g.Shared, acquire(c.readRequest(name))},
		{"Acquire with Replaces", binds, acquire(c.swap(l))},
		{"Release with a cool-down", !c.g.CoolDown, func() error { _, err := c.a.Release(c.ctx, l.req.Name, l.req.Token, time.Second); return err }},
	} {
		if u.lacks {
			c.wantUnsupported(u.call(), u.what)
		}
	}
	c.verify(l, "after requests that the store does not support")
	c.mustRefuse(c.b, c.request(l.req.Name), "after requests that the store does not support", l)
	c.take(c.b, c.request(name), "after requests that the store does not support")
	if c.g.Shared && c.has.convert && c.g.Promotion == driver.PromotionNone {
		l = c.take(c.a, c.readRequest(c.newName()), "to read a free name")
		_, err := c.convert(l, false)
		c.wantUnsupported(err, "promotion")
		c.take(c.b, c.readRequest(l.req.Name), "to read, after a promotion was refused")
	}
}

func (c *check) wantUnsupported(err error, what string) {
	if !errors.Is(err, errors.ErrUnsupported) {
		c.failf("%s: want errors.ErrUnsupported, got: %v", what, orGranted(err))
	}
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
