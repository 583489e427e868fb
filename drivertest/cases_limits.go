package drivertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var limitCases = []testCase{
	{
		name:   "limits/name",
		clause: "A name that is empty, or longer than MaxName or Guarantees.MaxName, is ErrInvalid for every method; the error names the name.",
		about:  "Request.Name MaxName Guarantees.MaxName ErrInvalid",
		f: func(c *check) {
			for _, n := range []string{"", strings.Repeat("n", c.maxName()+1), strings.Repeat("n", driver.MaxName+1)} {
				for method, err := range c.everyMethod(n) {
					c.invalid(err, "name", fmt.Sprintf("%s with a name of %d bytes", method, len(n)))
				}
			}
		},
	},
	{
		name:   "limits/token",
		clause: "A token is 1 to MaxToken bytes. An empty one, a longer one, and the reserved words are ErrInvalid; the error names the token.",
		about:  "Request.Token MaxToken ErrInvalid",
		f: func(c *check) {
			r := c.request(c.newName())
			for _, t := range []string{"", strings.Repeat("t", driver.MaxToken+1), "__write__", "padlock:look"} {
				r.Token = t
				_, err := c.a.Acquire(c.ctx, r)
				c.invalid(err, "token", "Acquire with token "+shortName(t))
			}
			r.Token = newToken() + strings.Repeat("t", driver.MaxToken-len(newToken()))
			l := c.take(c.a, r, "with the longest token")
			r.Token = r.Token[:driver.MaxToken-1] + "u"
			c.mustRefuse(c.b, r, "with a token that differs from the holder's in the last byte", l)
			c.releaseFreely(l)
		},
	},
	{
		name:   "limits/token-of-no-hold",
		clause: "Every method returns ErrInvalid, naming the token, for a token that no hold can have, and changes nothing.",
		about:  "Request.Token Request.Replaces ErrInvalid",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, t := range []string{"", strings.Repeat("t", driver.MaxToken+1), "__write__", "padlock:look"} {
				for method, f := range c.everyToken(l.req.Name, t) {
					c.invalid(f(), "token", method+" with token "+shortName(t))
					c.verify(l, "after "+method+" with token "+shortName(t))
				}
			}
			c.mustRefuse(c.b, c.request(l.req.Name), "while there is a writer, after tokens that no hold can have", l)
			if c.g.Shared {
				c.mustRefuse(c.b, c.readRequest(l.req.Name), "to read while there is a writer, after tokens that no hold can have", l)
			}
		},
	},
	{
		name:   "limits/ttl",
		clause: "The shortest and the longest lease in the Guarantees work; a shorter or longer one is ErrInvalid, naming the TTL.",
		about:  "Request.TTL Guarantees.MinTTL Guarantees.MaxTTL MinTTL MaxTTL ErrInvalid",
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
					_, err = c.a.Extend(c.ctx, l.req.Name, l.req.Token, ttl)
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
		about:  "Guarantees.Lease Request.TTL",
		needs:  []need{not(leases)},
		f: func(c *check) {
			r := c.request(c.newName())
			r.TTL = driver.MinTTL
			l := c.take(c.a, r, "with a TTL")
			c.passTime(3 * driver.MinTTL)
			c.verify(l, "after a TTL that the store must ignore")
			c.mustRefuse(c.b, c.request(r.Name), "after a TTL that the store must ignore", l)
			if _, err := c.a.Extend(c.ctx, r.Name, r.Token, driver.MinTTL); err != nil {
				c.failf("Extend of a hold without a lease: %v", err)
			}
		},
	},
	{
		name:   "limits/keep",
		clause: "A cool-down shorter than the shortest lease or longer than MaxTTL is ErrInvalid, naming it, and changes nothing.",
		about:  "Store.Release ErrInvalid",
		needs:  []need{coolDowns},
		f: func(c *check) {
			low, _ := c.ttlRange()
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			for _, d := range []time.Duration{low - 1, driver.MaxTTL + 1, -1} {
				_, err := c.a.Release(c.ctx, l.req.Name, l.req.Token, d)
				c.invalid(err, map[bool]string{true: "cool", false: "keep"}[err != nil && containsFold(err.Error(), "cool")], "Release with a cool-down of "+d.String())
			}
			c.verify(l, "after Release with an invalid cool-down")
		},
	},
	{
		name:   "limits/keep-beyond-leases",
		clause: "A cool-down of MaxTTL works even where leases are shorter.",
		about:  "Store.Release Guarantees.MaxTTL",
		needs:  []need{coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.cool(l, driver.MaxTTL)
			c.mustRefuse(c.b, c.request(l.req.Name), "after a release with a cool-down of MaxTTL")
		},
	},
	{
		name:   "limits/holder",
		clause: "A Label of MaxLabel bytes, or of Guarantees.MaxLabel if that is less, and a Host of MaxHost bytes are kept whole; longer ones are ErrInvalid, naming the label or the host.",
		about:  "Holder.Label Holder.Host MaxLabel MaxHost Guarantees.MaxLabel MaxTrace ErrInvalid",
		f: func(c *check) {
			r := c.request(c.newName())
			r.Holder = c.longestHolder()
			full, host := r.Holder.Label, r.Holder.Host
			l := c.take(c.a, r, "with the longest label and host")
			c.wantWhole(c.mustRefuse(c.b, c.request(r.Name), "of a held name", l).Holds, r.Holder)
			if c.has.inspect {
				c.wantWhole(c.inspect(r.Name).Holds, r.Holder)
			}
			r = c.request(c.newName())
			r.Holder.Label = full + "x"
			_, err := c.a.Acquire(c.ctx, r)
			c.invalid(err, "label", "Acquire with a label that is too long")
			r = c.request(r.Name)
			r.Holder.Host = host + "x"
			_, err = c.a.Acquire(c.ctx, r)
			c.invalid(err, "host", "Acquire with a host that is too long")
			r = c.request(r.Name)
			r.Holder.Trace = strings.Repeat("0", driver.MaxTrace+1)
			_, err = c.a.Acquire(c.ctx, r)
			c.invalid(err, "trace", "Acquire with a trace that is too long")
		},
	},
	{
		name:   "limits/holder-of-readers",
		clause: "The longest labels and hosts of readers are kept whole.",
		about:  "Holder.Label Holder.Host MaxLabel MaxHost Guarantees.MaxLabel Request.Shared",
		needs:  []need{readers, named},
		f: func(c *check) {
			r := c.readRequest(c.newName())
			r.Holder = c.longestHolder()
			l := c.take(c.a, r, "to read, with the longest label and host")
			r.Token = newToken()
			c.joins(c.b, r)
			c.wantWhole(c.mustRefuse(c.b, c.request(r.Name), "while there are two readers", l).Holds, r.Holder, r.Holder)
		},
	},
	{
		name:   "limits/holder-of-a-waiter",
		clause: "The longest label and host of a waiter are kept whole while it has the name.",
		about:  "Holder.Label Holder.Host MaxLabel MaxHost Guarantees.MaxLabel Waiter.Wait",
		needs:  []need{waits, named},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			r := c.request(l.req.Name)
			r.Holder = c.longestHolder()
			w := c.waitForName(c.b, r, true)
			c.queued(r.Name, 1)
			c.releaseFreely(l)
			n := c.awaitHold(w, "a waiter with the longest label and host")
			c.wantWhole(c.mustRefuse(c.a, c.request(r.Name), "of the name that a waiter got", n).Holds, r.Holder)
		},
	},
	{
		name:   "limits/fence",
		clause: "A FenceAbove of more than MaxFenceAbove is ErrInvalid, naming the fence.",
		about:  "Request.FenceAbove MaxFenceAbove MaxFence ErrInvalid",
		alone:  true, // a store that accepts such a FenceAbove may have no fences left for other cases
		f: func(c *check) {
			for _, above := range []uint64{driver.MaxFenceAbove + 1, driver.MaxFence - 1, driver.MaxFence, 1<<64 - 1} {
				r := c.request(c.newName())
				r.FenceAbove = above
				_, err := c.a.Acquire(c.ctx, r)
				c.invalid(err, "fence", fmt.Sprintf("Acquire with FenceAbove %d", above))
			}
		},
	},
}

// everyMethod calls each method that takes a name, and returns the errors.
func (c *check) everyMethod(name string) map[string]error {
	errs := make(map[string]error)
	r := c.request(name)
	_, errs["Acquire"] = c.a.Acquire(c.ctx, r)
	_, errs["Extend"] = c.a.Extend(c.ctx, name, r.Token, r.TTL)
	_, errs["Release"] = c.a.Release(c.ctx, name, r.Token, 0)
	for method, f := range c.optional(c.a, r) {
		errs[method] = f(c.ctx)
	}
	return errs
}

// everyToken calls each method that takes a token.
func (c *check) everyToken(name, token string) map[string]func() error {
	r, next := c.request(name), c.request(name)
	r.Token = token
	all := map[string]func() error{
		"Acquire": func() error { _, err := c.b.Acquire(c.ctx, r); return err },
		"Extend":  func() error { _, err := c.b.Extend(c.ctx, name, token, r.TTL); return err },
		"Release": func() error { _, err := c.b.Release(c.ctx, name, token, 0); return err },
	}
	for method, f := range c.optional(c.b, r) {
		if method != "Inspect" && method != "Break" {
			all[method] = func() error { return f(c.ctx) }
		}
	}
	if c.has.pass {
		all["Pass from"] = func() error { _, _, err := c.b.Pass(c.ctx, token, next); return err }
	}
	if c.has.file {
		all["File"] = func() error { _, err := c.b.File(name, token); return err }
	}
	if c.has.replace && token != "" {
		swap := next
		swap.Replaces = token
		all["Acquire that replaces"] = func() error { _, err := c.b.Acquire(c.ctx, swap); return err }
	}
	return all
}

// optional returns calls of the optional methods that take a context and a name.
func (c *check) optional(cl *client, r driver.Request) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"Wait":       func(ctx context.Context) error { _, err := cl.Wait(ctx, r, true); return err },
		"Pass":       func(ctx context.Context) error { _, _, err := cl.Pass(ctx, newToken(), r); return err },
		"Convert":    func(ctx context.Context) error { _, err := cl.Convert(ctx, r); return err },
		"Inspect":    func(ctx context.Context) error { _, err := cl.Inspect(ctx, r.Name); return err },
		"Break":      func(ctx context.Context) error { _, err := cl.Break(ctx, r.Name, 1); return err },
		"RaiseFence": func(ctx context.Context) error { return cl.RaiseFence(ctx, r.Name, r.Token, 1) },
	}
	has := map[string]bool{"Wait": c.has.wait, "Pass": c.has.pass, "Convert": c.has.convert, "Inspect": c.has.inspect, "Break": c.has.breaks, "RaiseFence": c.has.raise}
	for method := range all {
		if !has[method] {
			delete(all, method)
		}
	}
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

// wantWhole checks that others see the holders' labels and hosts as they were given.
func (c *check) wantWhole(got []driver.Hold, want ...driver.Holder) {
	if c.h.Anonymous {
		return
	}
	if len(got) != len(want) {
		c.failf("there are %d holds; others see %+v", len(want), got)
	}
	for i, h := range got {
		if h.Label != want[i].Label || h.Host != want[i].Host {
			c.errorf("a label of %d bytes and a host of %d bytes came back as %q of %q", len(want[i].Label), len(want[i].Host), h.Label, h.Host)
		}
	}
}
