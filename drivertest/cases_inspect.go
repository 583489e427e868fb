package drivertest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var inspectCases = []testCase{
	{
		name:   "inspect/held",
		clause: "Inspect reports that a name is held, until when, and the highest fence minted (0 if unknown), and leaves the hold as it is. A store that reports a path reports the same one to every process, and another one for another name.",
		f: func(c *check) {
			l := c.take(c.a, c.request(c.newName()), "of a free name")
			s := c.inspect(l.req.Name)
			if s.Name != l.req.Name || len(s.Holds) != 1 {
				c.failf("there is one hold on %q, but Inspect returns %+v", l.req.Name, s)
			}
			if s.Fence != 0 && s.Fence != l.grant.Fence {
				c.errorf("the fence is %d; Inspect returns %d", l.grant.Fence, s.Fence)
			}
			if c.g.Lease {
				c.wantTime("Until", s.Holds[0].Until, c.long())
			}
			mine, err := c.a.Inspect(c.ctx, l.req.Name)
			if err != nil || mine.Path != s.Path {
				c.failf("one process sees path %q, the other %q, %v", s.Path, mine.Path, err)
			}
			if other := c.inspect(c.newName()).Path; s.Path != "" && other == s.Path {
				c.failf("two names have the same path %q", s.Path)
			}
			c.verify(l, "after Inspect")
		},
	},
	{
		name:   "inspect/free",
		clause: "Inspect leaves a free name free. State.Holds has the live holds, and none that was released or has run out. State.Fence is set even for a free name, if the store knows it.",
		f: func(c *check) {
			name := c.newName()
			if s := c.inspect(name); len(s.Holds) != 0 || s.Waiters > 0 || s.Name != name {
				c.failf("%q was never held, but Inspect returns %+v", name, s)
			}
			l := c.take(c.b, c.request(name), "after Inspect of a free name")
			c.releaseFreely(l)
			c.noHolds(l, "was released")
			if c.g.Lease {
				l = c.takeSoon(c.a, c.brief(name, 1), "after Release")
				c.lapse(l)
				c.noHolds(l, "has run out")
			}
		},
	},
}

var listCases = []testCase{
	{
		name:   "list/prefix",
		clause: "List returns the names that are held and begin with prefix, byte for byte, as they are, whatever bytes they have, and no others. The prefix is not a pattern: *, ?, [, %, _ and \\ stand for themselves.",
		f: func(c *check) {
			n := c.newName()
			stem := n + "list"
			inside := []string{stem + "/a", stem + "/", stem + "/b/c"}
			for _, n := range append(inside, stem, stem+"a", stem+"0/", n+"LIST/a") {
				c.take(c.a, c.request(n), "of a free name")
			}
			c.wantNames(stem+"/", inside)
			c.wantNames(stem+"/nobody", nil)
			for _, odd := range []string{
				"*", "?", "[x]", "%", "_", "\\", "\\%", ".", "^", "'", "{}", "\x00", " ", "\n", "/..", "\xff\xfe", "\u65e5", "%41", ":",
				strings.Repeat("\xf0", min(300, c.maxName()/4)),
			} {
				stem := c.newName()
				c.take(c.a, c.request(stem+"xx"), "of a free name")
				c.take(c.a, c.request(stem+odd+"x"+odd), "of a free name")
				c.wantNames(stem+odd, []string{stem + odd + "x" + odd})
			}
		},
	},
	{
		name:   "list/many",
		clause: "List returns all of many names, and each of them once.",
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
}

func (c *check) noHolds(l *lease, what string) {
	var s driver.State
	if !c.poll(c.patience, func() bool { s = c.inspect(l.req.Name); return len(s.Holds) == 0 }) {
		c.failLate(c.patience, "the only hold %s; Inspect returns %+v", what, s)
	}
	if err := safety.FenceKeeps(s.Fence, l.grant.Fence); err != nil && s.Fence != 0 {
		c.failf("Inspect of the free name: %v", err)
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
