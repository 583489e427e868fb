package drivertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

var limitCases = []testCase{
	{
		name:   "limits/name",
		clause: "A name that is empty, or longer than MaxName or Guarantees.MaxName, is ErrInvalid for every method; the error names the name.",
		f: func(c *check) {
			for _, n := range []string{"", strings.Repeat("n", c.maxName()+1), strings.Repeat("n", driver.MaxName+1)} {
				for _, m := range c.methods(c.a, c.request(n)) {
					if m.named && c.can(m.ability) {
						c.invalid(m.call(c.ctx), "name", fmt.Sprintf("%s with a name of %d bytes", m.what, len(n)))
					}
				}
			}
		},
	},
	{
		name:   "limits/token",
		clause: "A token is 1 to MaxToken bytes. Every method returns ErrInvalid, naming the token, for an empty one, a longer one and the reserved words, and changes nothing.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, t := range []string{"", strings.Repeat("t", driver.MaxToken+1), "__write__", "padlock:look"} {
				r := c.request(c.newName())
				r.Token = driver.TokenOf(t)
				_, err := c.a.Acquire(c.ctx, r)
				c.invalid(err, "token", "Acquire of a free name with token "+shortName(t))
				r.Name = l.req.Name
				for _, m := range c.methods(c.b, r) {
					if m.token && c.can(m.ability) {
						c.invalid(m.call(c.ctx), "token", m.what+" with token "+shortName(t))
						c.verify(l, "after "+m.what+" with token "+shortName(t))
					}
				}
			}
			c.mustRefuse(c.b, c.request(l.req.Name), "while there is a writer, after tokens that no hold can have", l)
			if c.g.Shared {
				c.mustRefuse(c.b, c.readRequest(l.req.Name), "to read while there is a writer, after tokens that no hold can have", l)
			}
			r := c.request(c.newName())
			r.Token = driver.TokenOf(newToken() + strings.Repeat("t", driver.MaxToken-len(newToken())))
			l = c.take(c.a, r, "with the longest token")
			r.Token = driver.TokenOf(r.Token.Text()[:driver.MaxToken-1] + "u")
			c.mustRefuse(c.b, r, "with a token that differs from the holder's in the last byte", l)
			c.releaseFreely(l)
		},
	},
	{
		name:   "limits/ttl",
		clause: "The shortest and the longest lease in the Guarantees work; a shorter or longer one is ErrInvalid, naming the TTL.",
		f: func(c *check) {
			low, high := c.ttlRange()
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, ttl := range []time.Duration{low, high} {
				r := c.request(c.newName())
				r.TTL = ttl
				c.take(c.a, r, "with a lease of "+ttl.String())
				c.extend(l, ttl)
			}
			for _, ttl := range []time.Duration{low - 1, high + 1, -1, -time.Hour} {
				r := c.request(c.newName())
				r.TTL = ttl
				_, err := c.a.Acquire(c.ctx, r)
				c.invalid(err, "TTL", "Acquire with a lease of "+ttl.String())
				if c.g.Lease {
					_, err = c.a.Extend(c.ctx, l.req.Name, l.req.Token.Text(), ttl)
					c.invalid(err, "TTL", "Extend by "+ttl.String())
				}
			}
			r := c.request(c.newName())
			r.TTL = 0
			_, err := c.a.Acquire(c.ctx, r)
			c.invalid(err, "TTL", "Acquire with a lease of 0")
		},
	},
	{
		name:   "limits/ttl-ignored",
		clause: "A store without leases checks the TTL and then ignores it: a hold there does not end by itself.",
		needs:  []need{not(leases)},
		f: func(c *check) {
			r := c.request(c.newName())
			r.TTL = driver.MinTTL
			l := c.take(c.a, r, "with a TTL")
			c.nap(3 * driver.MinTTL)
			c.verify(l, "after a TTL that the store must ignore")
			c.mustRefuse(c.b, c.request(r.Name), "after a TTL that the store must ignore", l)
			if _, err := c.a.Extend(c.ctx, r.Name, r.Token.Text(), driver.MinTTL); err != nil {
				c.failf("Extend of a hold without a lease: %v", err)
			}
		},
	},
	{
		name:   "limits/keep",
		clause: "A cool-down shorter than the shortest lease or longer than MaxTTL is ErrInvalid, naming it, and changes nothing. One of MaxTTL works even where leases are shorter.",
		needs:  []need{coolDowns},
		f: func(c *check) {
			low, _ := c.ttlRange()
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, d := range []time.Duration{low - 1, driver.MaxTTL + 1, -1} {
				_, err := c.a.Release(c.ctx, l.req.Name, l.req.Token.Text(), d)
				c.invalid(err, map[bool]string{true: "cool", false: "keep"}[err != nil && containsFold(err.Error(), "cool")], "Release with a cool-down of "+d.String())
			}
			c.verify(l, "after Release with an invalid cool-down")
			c.cool(l, driver.MaxTTL)
			c.mustRefuse(c.b, c.request(l.req.Name), "after a release with a cool-down of MaxTTL")
		},
	},
	{
		name:   "limits/holder",
		clause: "A Label of MaxLabel bytes, or of Guarantees.MaxLabel if that is less, and a Host of MaxHost bytes are kept whole, of a writer, of all readers in the way and of a waiter that got the name; longer ones are ErrInvalid, naming the label or the host.",
		f:      holdersLimits,
	},
	{
		name:   "limits/fence",
		clause: "A FenceAbove of more than MaxFenceAbove is ErrInvalid, naming the fence, and so is RaiseFence to 2^53 or more: JSON, Lua and floating point could not keep such a number.",
		alone:  true, // a store that accepts such a fence may have no fences left for other cases
		f: func(c *check) {
			for _, above := range []uint64{driver.MaxFenceAbove + 1, driver.MaxFence - 1, driver.MaxFence, 1<<64 - 1} {
				r := c.request(c.newName())
				r.FenceAbove = above
				_, err := c.a.Acquire(c.ctx, r)
				c.invalid(err, "fence", fmt.Sprintf("Acquire with FenceAbove %d", above))
			}
			if c.can(driver.AbilityFenceRaiser) && c.g.Fence != driver.FenceNone {
				l := c.take(c.a, c.request(c.newName()), "of a free name")
				err := c.a.RaiseFence(c.ctx, l.req.Name, l.req.Token.Text(), driver.MaxFence)
				c.invalid(err, "fence", "RaiseFence to 2^53")
			}
		},
	},
}

// A methodCall is a call of a method.
type methodCall struct {
	what         string
	ability      driver.Ability // that the method is, or 0 if every store has the method
	named, token bool           // it looks at the name and at the token of the request
	call         func(context.Context) error
}

// methods returns calls with the name and the token of r, of all methods that the store implements,
// even of those that it lacks. Wait is the last one, because it may take the name.
func (c *check) methods(cl *client, r driver.Request) (all []methodCall) {
	next, name := c.request(r.Name), r.Name
	swap, slot := next, next
	swap.Replaces, slot.Name = r.Token, c.slotted()
	add := func(what string, a driver.Ability, named, token bool, call func(context.Context) error) {
		if c.implemented&a == a {
			all = append(all, methodCall{what, a, named, token, call})
		}
	}
	add("Acquire", 0, true, true, func(ctx context.Context) error { _, err := cl.Acquire(ctx, r); return err })
	add("Extend", 0, true, true, func(ctx context.Context) error { _, err := cl.Extend(ctx, name, r.Token.Text(), r.TTL); return err })
	add("Release", 0, true, true, func(ctx context.Context) error { _, err := cl.Release(ctx, name, r.Token.Text(), 0); return err })
	if c.g.Bound == driver.BoundToNothing && r.Token.Text() != "" {
		add("Acquire that replaces", 0, false, true, func(ctx context.Context) error { _, err := cl.Acquire(ctx, swap); return err })
	}
	add("AcquireSlot", driver.AbilitySlotTaker, false, false, func(ctx context.Context) error { _, _, err := cl.AcquireSlot(ctx, slot, 1, true); return err })
	add("ExtendBatch", driver.AbilityBatchExtender, false, false, func(ctx context.Context) error {
		out, err := cl.ExtendBatch(ctx, []fast.Extension{{Name: name, Token: r.Token, TTL: r.TTL}})
		if err == nil {
			err = out[0].Err
		}
		return err
	})
	add("Pass to", driver.AbilityPasser, true, true, func(ctx context.Context) error { _, _, err := cl.Pass(ctx, next.Token.Text(), r); return err })
	add("Pass from", driver.AbilityPasser, false, true, func(ctx context.Context) error { _, _, err := cl.Pass(ctx, r.Token.Text(), next); return err })
	add("Convert", driver.AbilityConverter, true, true, func(ctx context.Context) error { _, err := cl.Convert(ctx, r); return err })
	add("Inspect", driver.AbilityInspect, true, false, func(ctx context.Context) error { _, err := cl.Inspect(ctx, name); return err })
	add("List", driver.AbilityList, false, false, func(ctx context.Context) error { _, err := cl.List(ctx, name); return err })
	add("Break", driver.AbilityBreak, true, false, func(ctx context.Context) error { _, err := cl.Break(ctx, name, driver.MaxFence-1); return err })
	add("RaiseFence", driver.AbilityFenceRaiser, true, true, func(ctx context.Context) error { return cl.RaiseFence(ctx, name, r.Token.Text(), 1) })
	add("File", driver.AbilityFileSharer, false, true, func(context.Context) error { _, err := cl.File(name, r.Token.Text()); return err })
	add("StoreID", driver.AbilityStoreID, false, false, func(ctx context.Context) error { _, err := cl.StoreID(ctx); return err })
	add("Record", driver.AbilityRecorder, true, false, func(ctx context.Context) error { return cl.Record(ctx, name, []fast.Record{{ID: "r", Text: "x"}}) })
	add("Records", driver.AbilityRecorder, true, false, func(ctx context.Context) error { _, err := cl.Records(ctx, name); return err })
	add("Recorded", driver.AbilityRecorder, false, false, func(ctx context.Context) error { _, err := cl.Recorded(ctx, name, 10); return err })
	add("Status", driver.AbilityReporter, false, false, func(ctx context.Context) error { _, err := cl.Status(ctx); return err })
	add("Wait", driver.AbilityWaiter, true, true, func(ctx context.Context) error { _, err := cl.Wait(ctx, r, true); return err })
	return all
}

// longestHolder has a label and a host as long as the store allows, with characters of several
// bytes, and with some that many formats escape.
func (c *check) longestHolder() driver.Holder {
	most := driver.MaxLabel
	if c.g.MaxLabel > 0 {
		most = min(most, c.g.MaxLabel)
	}
	const unit = "\u00e9\x01\"\u20ac\n"
	label := strings.Repeat(unit, most/len(unit))
	label += strings.Repeat("l", most-len(label))
	return driver.Holder{Host: strings.Repeat("\u00e9", driver.MaxHost/2), PID: 4713, Label: label}
}

func holdersLimits(c *check) {
	r := c.request(c.newName())
	r.Holder = c.longestHolder()
	long := r.Holder
	c.wantWhole(c.take(c.a, r, "with the longest label and host"), 1)
	if c.can(driver.AbilityWaiter) {
		r = c.request(c.newName())
		l := c.take(c.b, r, "of a free name")
		r.Token, r.Holder = driver.TokenOf(newToken()), long
		w := c.waitForName(c.a, r, true)
		c.queued(r.Name, 1)
		c.releaseFreely(l)
		c.wantWhole(c.awaitHold(w, "a waiter with the longest label and host"), 1)
	}
	for what, h := range map[string]driver.Holder{
		"label": {Label: long.Label + "x"}, "host": {Host: long.Host + "x"}, "trace": {Trace: strings.Repeat("0", driver.MaxTrace+1)},
	} {
		r = c.request(c.newName())
		r.Holder = h
		_, err := c.a.Acquire(c.ctx, r)
		c.invalid(err, what, "Acquire with a "+what+" that is too long")
	}
	if c.g.Shared {
		r = c.readRequest(c.newName())
		r.Holder = long
		l := c.take(c.a, r, "to read, with the longest label and host")
		r.Token = driver.TokenOf(newToken())
		c.joins(c.b, r)
		c.wantWhole(l, 2)
	}
}

// wantWhole checks that others see all n holders in the way, with the label and the host of l.
func (c *check) wantWhole(l *lease, n int) {
	if c.h.Anonymous {
		return
	}
	for what, got := range c.views(l) {
		if len(got) != n {
			c.failf("there are %d holds; %s has %+v", n, what, got)
		}
		for _, h := range got {
			if want := l.req.Holder; h.Label != want.Label || h.Host != want.Host || h.Shared != l.req.Shared {
				c.errorf("a label of %d bytes and a host of %d bytes (shared: %v) came back in %s as %q of %q (shared: %v)",
					len(want.Label), len(want.Host), l.req.Shared, what, h.Label, h.Host, h.Shared)
			}
		}
	}
}
