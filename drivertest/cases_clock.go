package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var clockCases = []testCase{
	{
		name:   "clock/server",
		clause: "The clock of the server judges leases, and no clock of a client does. With SafeClockJump, no clock that is set ends a lease.",
		needs:  []need{leases, skewClock},
		alone:  true,
		f: func(c *check) {
			const off = driver.MaxTTL + time.Hour // longer than every lease
			c.later(func() { c.h.SkewClock(0) })
			for _, d := range []time.Duration{off, -off} {
				c.skewClock(d)
				l := c.take(c.a, c.request(c.newName()), "of a free name, while the server's clock is off by "+d.String())
				c.mustRefuse(c.b, c.request(l.req.Name), "of a held name, while the server's clock is off by "+d.String(), l)
				c.skewClock(d + off)
				switch c.g.SafeClockJump {
				case driver.PromiseYes:
					c.mustRefuse(c.b, c.request(l.req.Name), "after the server's clock was set", l)
				case driver.PromiseNo:
					c.take(c.b, c.request(l.req.Name), "of a name whose lease has ended by the server's clock")
				}
			}
		},
	},
}

// skewClock sets the server's clock to the clients' clock plus d.
func (c *check) skewClock(d time.Duration) {
	if err := c.h.SkewClock(d); err != nil {
		c.failf("Harness.SkewClock(%v): %v", d, err)
	}
}
