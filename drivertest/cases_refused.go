package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var refusedCases = []testCase{
	{
		name:   "extend/refused",
		clause: "A request that is refused changes no lease, whether the one that it asks for is longer or shorter.",
		needs:  []need{leases},
		f: func(c *check) {
			for _, w := range c.refusals() {
				if w.has {
					c.refusedKeeps(w)
				}
			}
		},
	},
}

// refusal is a request that the store refuses because of the hold l. The name has two readers if
// shared is set. ask returns nil if the store did not refuse it. Other cases report that.
type refusal struct {
	what   string
	has    bool
	shared bool
	ask    func(l, other *lease, ttl time.Duration) error
}

func (c *check) refusals() []refusal {
	stranger := func(l *lease, ttl time.Duration) driver.Request {
		r := c.request(l.req.Name)
		r.TTL = ttl
		return r
	}
	convert := func(l *lease, shared bool, ttl time.Duration) error {
		r := l.req
		r.Shared, r.TTL = shared, ttl
		_, err := l.cl.Convert(c.ctx, r)
		return err
	}
	promotion := c.can(driver.AbilityConverter) && c.g.Shared && c.g.Promotion != driver.PromotionNone
	return []refusal{
		{"Acquire by another caller", true, false, func(l, _ *lease, ttl time.Duration) error {
			_, err := c.b.Acquire(c.ctx, stranger(l, ttl))
			return err
		}},
		{"Acquire to read by another caller", c.g.Shared, false, func(l, _ *lease, ttl time.Duration) error {
			r := stranger(l, ttl)
			r.Shared = true
			_, err := c.b.Acquire(c.ctx, r)
			return err
		}},
		{"Extend with another token", true, false, func(l, _ *lease, ttl time.Duration) error {
			_, err := l.cl.Extend(c.ctx, l.req.Name, newToken(), ttl)
			return err
		}},
		{"Convert with another token", promotion, false, func(l, _ *lease, ttl time.Duration) error {
			_, err := l.cl.Convert(c.ctx, stranger(l, ttl))
			return err
		}},
		{"promotion while there is another reader", promotion, true, func(l, _ *lease, ttl time.Duration) error { return convert(l, false, ttl) }},
		{"promotion while another reader is being promoted", promotion, true, func(l, other *lease, ttl time.Duration) error {
			if err := convert(other, false, other.req.TTL); err == nil || isLoss(err) {
				return nil
			}
			return convert(l, false, ttl)
		}},
		{"a wait to be promoted", promotion && c.can(driver.AbilityWaiter), true, func(l, _ *lease, ttl time.Duration) error {
			r := l.req
			r.Shared, r.TTL = false, ttl
			w := c.waitOnce(l.cl, r, false)
			c.settle()
			w.cancel()
			return c.awaitAnswer(w, "a wait for promotion that was given up").err
		}},
		{"Release with another token", true, false, func(l, _ *lease, ttl time.Duration) error {
			if !c.g.CoolDown {
				ttl = 0
			}
			c.outcome(l.cl, l.req.Name, newToken(), ttl, "with another token", driver.OutcomeGone, driver.OutcomeExpired, driver.OutcomeTaken)
			return driver.ErrLost
		}},
	}
}

// refusedKeeps asks for a lease that is longer than that of a hold, and for a shorter one.
func (c *check) refusedKeeps(w refusal) {
	r := c.request(c.newName())
	r.Shared, r.TTL = w.shared, max(c.long()/5, c.units(4))
	l := c.take(c.a, r, "of a free name")
	var other *lease
	if w.shared {
		r = c.readRequest(r.Name)
		r.TTL = l.req.TTL
		other = c.joins(c.b, r)
	}
	for _, ttl := range []time.Duration{c.unit, c.long()} {
		err := w.ask(l, other, ttl)
		if err == nil || isLoss(err) && l.req.Shared {
			return // a promotion may end the hold
		}
		g := c.verify(l, "after "+w.what+" was refused")
		if g.TTL < l.req.TTL/2 || g.TTL > l.req.TTL*2 {
			c.failBefore(l.sent.Add(l.req.TTL/2), "%s for %v was refused: %v; then a lease of %v has %v left", w.what, ttl, err, l.req.TTL, g.TTL)
		}
		if !c.can(driver.AbilityInspect) {
			continue
		}
		for _, h := range c.inspect(r.Name).Holds {
			if left := time.Until(h.Until); !h.Until.IsZero() && left > l.req.TTL*2 {
				c.failf("%s for %v was refused: %v; then a lease of %v ends in %v, as Inspect says", w.what, ttl, err, l.req.TTL, left)
			}
		}
	}
}
