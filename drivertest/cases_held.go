package drivertest

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

var heldCases = []testCase{
	{
		name:   "held/holder",
		clause: "A *HeldError and Inspect name the holder: host, process, label and, if the store keeps it, trace, as the holder gave them, and say since when and until when it has the name, on the clock of the process that asks. A holder without a plan has no planned end. After an Acquire with Replaces, they name the new holder.",
		needs:  []need{named},
		f:      heldBy,
	},
	{
		name:   "held/until-moves",
		clause: "HeldError.Until is the end of the lease as it stands, which a renewal moves. Hold.Since stays the time of the grant.",
		needs:  []need{leases, named},
		f: func(c *check) {
			l := c.take(c.a, c.brief(c.newName(), 20), "of a free name")
			before := c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l)
			c.nap(c.units(2))
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
		name:   "held/foreign",
		clause: "A name that another program took is held, and its Hold has Foreign set; when the program gives it up, the name is free.",
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

func heldBy(c *check) {
	l := c.take(c.a, c.request(c.newName()), "of a free name")
	for what, holds := range c.views(l) {
		c.wantHolder(what, holds, testHolder)
		c.wantTime("Since of "+what, holds[0].Since, 0)
		c.wantTime("PlannedEnd of "+what, holds[0].PlannedEnd, testHolder.Plan)
		if c.g.Lease {
			c.wantTime("Until of "+what, holds[0].Until, c.long())
		}
	}
	if c.g.Lease {
		c.wantTime("HeldError.Until", c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l).Until, c.long())
	}
	r := c.request(c.newName())
	r.Holder = driver.Holder{Host: "höst \"b\"\n", PID: 1, Label: "a\tlabel, 'with' {odd} \\ bytes: %s"}
	odd := c.take(c.a, r, "with an odd label, and without a plan")
	for what, holds := range c.views(odd) {
		c.wantHolder(what, holds, r.Holder)
		if !holds[0].PlannedEnd.IsZero() {
			c.errorf("the holder has no plan; PlannedEnd of %s is %v", what, holds[0].PlannedEnd)
		}
	}
	if c.g.Bound == driver.BoundToNothing {
		q := c.swap(odd)
		q.Holder = driver.Holder{Host: "host-b.example", PID: 4712, Label: "adopted"}
		l := c.take(c.a, q, "with Replaces, of a live hold")
		var views map[string][]driver.Hold
		c.poll(c.patience, func() bool { // a few members of a composite store may still have the old hold
			views = c.views(l)
			return len(views["HeldError"]) == 1 && len(views["Inspect"]) <= 1
		})
		for what, holds := range views {
			c.wantHolder(what, holds, q.Holder)
		}
	}
}

// views returns the holds of the name of l as others see them.
func (c *check) views(l *lease) map[string][]driver.Hold {
	all := map[string][]driver.Hold{"HeldError": c.mustRefuse(c.b, c.request(l.req.Name), "of a held name", l).Holds}
	if c.can(driver.AbilityInspect) {
		all["Inspect"] = c.inspect(l.req.Name).Holds
	}
	return all
}

// wantHolder checks that holds has one hold, an exclusive one of the holder want.
func (c *check) wantHolder(what string, holds []driver.Hold, want driver.Holder) {
	if len(holds) != 1 {
		c.failf("one hold is in the way; %s has %+v", what, holds)
	}
	got := holds[0]
	if got.Trace == "" {
		got.Trace = want.Trace // a store may leave it out
	}
	got.Plan = want.Plan // a store may leave Plan out, because PlannedEnd contains it
	if got.Holder != want || got.Shared || got.Foreign || got.Cooling {
		c.failf("the holder is %+v; %s has %+v", want, what, holds[0])
	}
}

// wantTime checks a time on this process's clock. It allows a large difference, because the store
// may have converted the time from another clock, in whole seconds.
func (c *check) wantTime(what string, got time.Time, fromNow time.Duration) {
	const roughly = 15 * time.Second
	want := time.Now().Add(fromNow)
	if d := got.Sub(want); d < -roughly || d > roughly {
		c.errorf("%s is %v, which should be about %v", what, got, want)
	}
}
