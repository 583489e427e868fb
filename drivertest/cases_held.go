package drivertest

import (
	"errors"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

var heldCases = []testCase{
	{
		name:   "held/holder",
		clause: "A *HeldError names the holder: host, process, label and, if the store keeps it, trace, as the holder gave them. After an Acquire with Replaces, it names the new holder.",
		about:  "Request.Holder Holder.Host Holder.PID Holder.Label Holder.Trace HeldError.Holds Hold.Shared",
		needs:  []need{named},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.wantHolder(c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l).Holds, false)
			r := c.request(c.newName())
			r.Holder = driver.Holder{Host: "höst \"b\"\n", PID: 1, Label: "a\tlabel, 'with' {odd} \\ bytes: %s"}
			odd := c.take(c.a, r, "with an odd label")
			h := c.mustRefuse(c.b, c.request(r.Name), "of a held name", odd)
			if len(h.Holds) != 1 || h.Holds[0].Holder != r.Holder {
				c.failf("the holder was %+v; others see %+v", r.Holder, h.Holds)
			}
			if !c.has.replace {
				return
			}
			q := c.swap(odd)
			q.Holder = driver.Holder{Host: "host-b.example", PID: 4712, Label: "adopted"}
			n := c.take(c.b, q, "with Replaces, of a live hold")
			h = c.mustRefuse(c.a, c.request(r.Name), "of a name that was taken over", n)
			if !slices.ContainsFunc(h.Holds, func(h driver.Hold) bool { return h.Holder == q.Holder }) {
				c.failf("%+v took the hold over; others see %+v", q.Holder, h.Holds)
			}
		},
	},
	{
		name:   "held/times",
		clause: "A *HeldError says since when and until when the name is held, on the clock of the process that asks; a holder without a plan has no planned end.",
		about:  "Hold.Since Hold.Until Hold.PlannedEnd Holder.Plan HeldError.Until",
		needs:  []need{named},
		f:      heldTimes,
	},
	{
		name:   "held/all-in-the-way",
		clause: "A *HeldError names every hold in the way: for a writer, all readers.",
		about:  "HeldError.Holds Hold.Shared",
		needs:  []need{readers, named},
		f: func(c *check) {
			l := c.take(c.a, c.readRequest(c.newName()), "to read a free name")
			c.readToo(c.b, l)
			held := c.mustRefuse(c.b, c.request(l.req.Name), "while there are two readers", l)
			if len(held.Holds) != 2 || !held.Holds[0].Shared || !held.Holds[1].Shared {
				c.failf("two readers are in the way; HeldError has %+v", held.Holds)
			}
		},
	},
	{
		name:   "held/until-moves",
		clause: "HeldError.Until is the end of the lease as it stands, which a renewal moves. Hold.Since stays the time of the grant.",
		about:  "HeldError.Until Hold.Until Hold.Since",
		needs:  []need{leases, named},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 20), "of a free name")
			before := c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
			c.passTime(c.units(2))
			c.extend(l, c.long())
			asked := time.Now()
			after := c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
			trip := time.Since(asked)
			if after.Until.Sub(before.Until) < c.unit { // two looks at the same lease differ by less
				c.failf("Until was %v, and after a renewal by %v it is %v", before.Until, c.long(), after.Until)
			}
			if len(before.Holds) != 1 || len(after.Holds) != 1 {
				return
			}
			was, is := before.Holds[0].Since, after.Holds[0].Since
			if moved := is.Sub(was); moved > c.unit {
				if moved <= c.unit+trip { // a late reply brings the store's time late
					c.notProven(true, "Since was %v, and after a renewal it is %v", was, is)
				}
				c.failf("Since was %v, and after a renewal it is %v", was, is)
			}
		},
	},
	{
		name:   "held/nothing-else",
		clause: "A refusal is ErrHeld and nothing else: it is not joined with ErrUncertain, ErrUnavailable or ErrInvalid.",
		about:  "ErrHeld",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			_, err := c.b.Acquire(c.ctx, c.request(l.req.Name))
			for _, other := range []error{driver.ErrUncertain, driver.ErrUnavailable, driver.ErrInvalid, driver.ErrLost, driver.ErrClosed} {
				if errors.Is(err, other) {
					c.errorf("errors.Is finds %q in the error of a refused Acquire: %v", other.Error(), err)
				}
			}
		},
	},
	{
		name:   "held/foreign",
		clause: "A name that another program took is held, and its Hold has Foreign set; when the program gives it up, the name is free.",
		about:  "Hold.Foreign HeldError.Foreign",
		needs:  []need{foreign},
		f: func(c *check) {
			name := c.newName()
			release, err := c.h.Foreign(name)
			if err != nil {
				c.failf("Harness.Foreign: %v", err)
			}
			held := c.mustRefuse(c.a, c.request(name), "of a name that another program holds")
			if len(held.Holds) > 0 && !held.Foreign() {
				c.errorf("the holder is not marked as foreign: %+v", held.Holds)
			}
			if err := release(); err != nil {
				c.failf("release of Harness.Foreign: %v", err)
			}
			c.takeSoon(c.a, c.request(name), "after the other program gave the name up")
		},
	},
}

func (c *check) wantHolder(holds []driver.Hold, shared bool) {
	want := testHolder
	if len(holds) != 1 {
		c.failf("one hold is in the way; HeldError has %+v", holds)
	}
	got := holds[0]
	if got.Trace == "" {
		got.Trace = want.Trace // a store may leave it out
	}
	got.Plan = want.Plan // a store may leave Plan out, because PlannedEnd contains it
	if got.Holder != want || got.Shared != shared || got.Foreign || got.Cooling {
		c.failf("the holder is %+v (shared: %v); others see %+v", want, shared, holds[0])
	}
}

func heldTimes(c *check) {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	held := c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
	if len(held.Holds) != 1 {
		c.failf("one hold is in the way; HeldError has %+v", held.Holds)
	}
	h := held.Holds[0]
	c.wantTime("Since", h.Since, 0)
	c.wantTime("PlannedEnd", h.PlannedEnd, testHolder.Plan)
	if c.g.Lease {
		c.wantTime("Until", h.Until, c.long())
		c.wantTime("HeldError.Until", held.Until, c.long())
	}
	r := c.request(c.newName())
	r.Holder.Plan = 0
	c.take(c.a, r, "without a plan")
	for _, h := range c.mustRefuse(c.b, c.request(r.Name), "of a held name").Holds {
		if !h.PlannedEnd.IsZero() {
			c.errorf("the holder has no plan; PlannedEnd is %v", h.PlannedEnd)
		}
	}
}

// wantTime checks a time on this process's clock. It allows a large difference, because the store
// may have converted the time from another clock, in whole seconds.
func (c *check) wantTime(what string, got time.Time, fromNow time.Duration) {
	const roughly = 15 * time.Second
	if c.h.Advance != nil && !got.IsZero() {
		return // the store has another wall clock
	}
	want := time.Now().Add(fromNow)
	if d := got.Sub(want); d < -roughly || d > roughly {
		c.errorf("%s is %v, which should be about %v", what, got, want)
	}
}
