package drivertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

var inspectCases = []testCase{
	{
		name:   "inspect/held",
		clause: "Inspect reports who holds a name, in which mode, since when and until when, and the highest fence minted (0 if unknown).",
		about:  "Admin.Inspect State.Name State.Holds State.Fence",
		needs:  []need{inspects},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			s := c.inspect(l.req.Name)
			if s.Name != l.req.Name || len(s.Holds) != 1 {
				c.failf("there is one hold on %q, but Inspect returns %+v", l.req.Name, s)
			}
			if s.Fence != 0 && s.Fence != l.grant.Fence {
				c.errorf("the fence is %d; Inspect returns %d", l.grant.Fence, s.Fence)
			}
			if !c.h.Anonymous {
				c.wantHolder(s.Holds, false)
				c.wantTime("Since", s.Holds[0].Since, 0)
				c.wantTime("PlannedEnd", s.Holds[0].PlannedEnd, testHolder.Plan)
			}
			if c.g.Lease {
				c.wantTime("Until", s.Holds[0].Until, c.long())
			}
		},
	},
	{
		name:   "inspect/touches-nothing",
		clause: "Inspect does not touch the name: a free name stays free, and a hold stays as it is.",
		about:  "Admin.Inspect",
		needs:  []need{inspects},
		f: func(c *check) {
			name := c.newName()
			if s := c.inspect(name); len(s.Holds) != 0 || s.Waiters > 0 || s.Name != name {
				c.failf("%q was never held, but Inspect returns %+v", name, s)
			}
			l := c.take(c.b, c.request(name), "after Inspect of a free name")
			c.inspect(name)
			c.verify(l, "after Inspect")
			c.releaseFreely(l)
		},
	},
	{
		name:   "inspect/live-only",
		clause: "State.Holds has the live holds, and none that was released or has run out. State.Fence is set even for a free name, if the store knows it.",
		about:  "State.Holds State.Fence",
		needs:  []need{inspects},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.releaseFreely(l)
			c.noHolds(l, "was released")
			if c.g.Lease {
				l = c.takeSoon(c.a, c.brief(l.req.Name, 1), "after Release")
				c.lapse(l)
				c.noHolds(l, "has run out")
			}
		},
	},
	{
		name:   "inspect/cooling",
		clause: "A cool-down is a hold with Cooling set, and Until is its end.",
		about:  "Hold.Cooling State.Holds",
		needs:  []need{inspects, coolDowns},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			c.cool(l, c.long())
			s := c.inspect(l.req.Name)
			if len(s.Holds) != 1 || !s.Holds[0].Cooling {
				c.failf("the name cools down, but Inspect returns %+v", s)
			}
			c.wantTime("Until", s.Holds[0].Until, c.long())
		},
	},
	{
		name:   "inspect/path",
		clause: "A store that reports a path reports the same one to every process, and another one for another name.",
		about:  "State.Path",
		needs:  []need{inspects},
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			mine := c.inspect(l.req.Name).Path
			s, err := c.a.Inspect(c.ctx, l.req.Name)
			if err != nil || s.Path != mine {
				c.failf("one process sees path %q, the other %q, %v", mine, s.Path, err)
			}
			if other := c.inspect(c.newName()).Path; mine != "" && other == mine {
				c.failf("two names have the same path %q", mine)
			}
		},
	},
}

var listCases = []testCase{
	{
		name:   "list/prefix",
		clause: "List returns the names that are held and begin with prefix, byte for byte, and no others.",
		about:  "Admin.List State.Name",
		needs:  []need{lists},
		f: func(c *check) {
			n := c.newName()
			stem := n + "list"
			inside := []string{stem + "/a", stem + "/", stem + "/b/c"}
			for _, n := range append(inside, stem, stem+"a", stem+"0/", n+"LIST/a") {
				c.take(c.a, c.request(n), "of a free name")
			}
			c.wantNames(stem+"/", inside)
			c.wantNames(stem+"/nobody", nil)
		},
	},
	{
		name:   "list/prefix-is-no-pattern",
		clause: "The prefix of List is not a pattern: *, ?, [, %, _ and \\ stand for themselves.",
		about:  "Admin.List",
		needs:  []need{lists},
		f: func(c *check) {
			for _, odd := range []string{"*", "?", "[x]", "%", "_", "\\", "\\%", ".", "^", "'", "{}", "\x00"} {
				stem := c.newName()
				c.take(c.a, c.request(stem+"xx"), "of a free name")
				c.take(c.a, c.request(stem+odd+"x"), "of a free name")
				c.wantNames(stem+odd, []string{stem + odd + "x"})
			}
		},
	},
	{
		name:   "list/any-names",
		clause: "List returns names as they are, whatever bytes they have.",
		about:  "Admin.List State.Name",
		needs:  []need{lists},
		f: func(c *check) {
			stem := c.newName()
			c.take(c.a, c.request(c.newName()), "of a free name with another prefix")
			var names []string
			for i, odd := range []string{" ", "\x00", "\n", "{}", "/..", "\xff\xfe", "\u65e5", "\\", "%41", ":", "*", strings.Repeat("\xf0", min(300, c.maxName()/4))} {
				names = append(names, stem+odd+strconv.Itoa(i)+odd)
				c.take(c.a, c.request(names[i]), "of a free name")
			}
			c.wantNames(stem, names)
		},
	},
	{
		name:   "list/many",
		clause: "List returns all of many names, and each of them once.",
		about:  "Admin.List",
		needs:  []need{lists},
		f: func(c *check) {
			stem, n := c.newName(), 250
			c.take(c.a, c.request(c.newName()), "of a free name with another prefix")
			if c.h.Slow {
				n = 30
			}
			var names []string
			for i := range n {
				names = append(names, stem+strconv.Itoa(i))
				c.take(c.a, c.request(names[i]), "of a free name")
			}
			c.wantNames(stem, names)
		},
	},
	{
		name:   "list/what-is-busy",
		clause: "List returns names that are held or cool down, with their holds, and no free names.",
		about:  "Admin.List State.Holds",
		needs:  []need{lists},
		f: func(c *check) {
			stem := c.newName()
			c.releaseFreely(c.take(c.a, c.request(stem+"free"), "of a free name"))
			c.take(c.a, c.request(stem+"held"), "of a free name")
			c.take(c.a, c.request(c.newName()), "of a free name with another prefix")
			want := []string{stem + "held"}
			if c.g.CoolDown {
				l := c.take(c.a, c.request(stem+"cooling"), "of a free name")
				c.cool(l, c.long())
				want = append(want, stem+"cooling")
			}
			for _, s := range c.wantNames(stem, want) {
				if len(s.Holds) != 1 || s.Holds[0].Cooling != strings.HasSuffix(s.Name, "cooling") {
					c.errorf("List returns %+v", s)
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

func (c *check) inspect(name string) driver.State {
	s, err := c.b.Inspect(c.ctx, name)
	if err != nil {
		c.failf("Inspect: %v", err)
	}
	return s
}

func (c *check) noHolds(l *lease, what string) {
	var s driver.State
	if !c.poll(c.patience, func() bool { s = c.inspect(l.req.Name); return len(s.Holds) == 0 }) {
		c.failLate(c.patience, "the only hold %s; Inspect returns %+v", what, s)
	}
	if s.Fence != 0 && s.Fence < l.grant.Fence {
		c.failf("fence %d was minted; Inspect of the free name returns %d", l.grant.Fence, s.Fence)
	}
}

// wantNames calls List with the prefix, and checks that it returns exactly the names in want. The
// order does not matter, and a name may be repeated.
func (c *check) wantNames(prefix string, want []string) map[string]driver.State {
	states, err := c.b.List(c.ctx, prefix)
	if err != nil {
		c.failf("List: %v", err)
	}
	got := make(map[string]driver.State)
	for _, s := range states {
		if _, twice := got[s.Name]; twice {
			c.failf("List(%s) returns %s twice", shortName(prefix), shortName(s.Name))
		}
		got[s.Name] = s
	}
	for _, n := range want {
		if _, ok := got[n]; !ok {
			c.failf("List(%s) does not return %s; it returns %d names instead of %d", shortName(prefix), shortName(n), len(got), len(want))
		}
	}
	for n := range got {
		if !slices.Contains(want, n) {
			c.failf("List(%s) returns %d names instead of %d; %s is not among those wanted", shortName(prefix), len(got), len(want), shortName(n))
		}
	}
	return got
}
