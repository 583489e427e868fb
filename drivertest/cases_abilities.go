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
		f:      unsupported,
	},
	{
		name:   "guarantees/abilities",
		clause: "A method of an optional interface returns errors.ErrUnsupported if Guarantees.Lacks names it, and only then.",
		f: func(c *check) {
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			defer cancel()
			for _, m := range c.methods(c.a, c.request(c.newName())) {
				lacks := c.g.Lacks&m.ability != 0
				if err := m.call(ctx); m.ability != 0 && errors.Is(err, errors.ErrUnsupported) != lacks {
					c.errorf("Guarantees.Lacks names %s: %v; it returns: %v", m.what, lacks, orGranted(err))
				}
			}
		},
	},
	{
		name:   "status/findings",
		clause: "Status returns findings with a name and a value each, or an error if the server could not be asked.",
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
		{"Release with a cool-down", !c.g.CoolDown, func() error { _, err := c.a.Release(c.ctx, l.req.Name, l.req.Token.Text(), time.Second); return err }},
	} {
		if u.lacks {
			c.wantUnsupported(u.call(), u.what)
		}
	}
	c.verify(l, "after requests that the store does not support")
	c.mustRefuse(c.b, c.request(l.req.Name), "after requests that the store does not support", l)
	c.take(c.b, c.request(name), "after requests that the store does not support")
	if c.g.Shared && c.can(driver.AbilityConverter) && c.g.Promotion == driver.PromotionNone {
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
