package soak

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
)

// A path of the soak has up to treeDepth parts, each of which is one of treeWidth letters.
const (
	treeWidth = 8
	treeDepth = 4
	treeMark  = "tree:" // in the first part of each path, behind the prefix
)

func (d *dice) path() string {
	p := d.load.Prefix + treeMark
	for i := range 1 + d.IntN(treeDepth) {
		if i > 0 {
			p += "/"
		}
		p += string(rune('a' + d.IntN(treeWidth)))
	}
	return p
}

func isPath(name string) bool { return strings.Contains(name, treeMark) }

// withFolders returns a path and the folders above it.
func withFolders(p string) (all []string) {
	for ; p != "."; p = path.Dir(p) {
		all = append(all, p)
	}
	return all
}

func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// climb locks random paths until ctx ends. Half of the calls do not wait.
func (w *worker) climb(ctx context.Context) {
	l := &w.dice.load
	for ctx.Err() == nil && !w.monitor.Over() {
		t := turn{
			name: w.dice.path(), ttl: w.dice.between(l.MinTTL, l.MaxTTL), hold: w.dice.between(l.MinHold, l.MaxHold),
			try: w.dice.percent(50), wait: l.Wait, verify: w.dice.percent(l.Verify),
		}
		if t.try {
			t.wait = 0
		}
		e := w.asks(&t)
		all, err := w.locker.AcquireAll(ctx, []string{t.name}, padlock.Paths(), padlock.TTL(t.ttl), padlock.Wait(t.wait))
		if err != nil {
			w.refused(ctx, e, err)
		} else {
			w.bundled(e, all, t, all.Lock(t.name).Fence(), t.name).use(true)
		}
		pause(ctx, w.dice.between(0, l.MaxHold))
	}
}

// paths checks I16.
func (c *checker) paths() {
	var holds []*Hold
	for _, h := range c.holds {
		if isPath(h.Name) && len(h.Spans) > 0 {
			holds = append(holds, h)
		}
	}
	slices.SortFunc(holds, func(a, b *Hold) int { return cmp.Compare(a.At, b.At) })
	c.overlappingPaths(holds)
	c.fencesOfPaths(holds)
	c.refusedPaths()
}

// overlappingPaths compares each hold with all that were inside their windows when it began.
func (c *checker) overlappingPaths(holds []*Hold) {
	var inside []*Hold
	for _, h := range holds {
		inside = slices.DeleteFunc(inside, func(x *Hold) bool { return x.Spans[0].To <= h.At })
		for _, x := range inside {
			if overlap(x.Name, h.Name) && h.Spans[0].From < h.Spans[0].To {
				c.say("I16", h.At, h.Name, "%v", safety.ErrTwoHold("hold %x began %v before the end of hold %x of %s", h.ID, time.Duration(x.Spans[0].To-h.At), x.ID, x.Name))
			}
		}
		inside = append(inside, h)
	}
}

// fencesOfPaths compares the fence of each grant with the greatest one of each overlapping path before.
func (c *checker) fencesOfPaths(holds []*Hold) {
	greatest := map[string]uint64{}
	for _, h := range holds {
		fence := h.Grants[0].Fence
		if fence == 0 || h.doubted(h.At) {
			continue
		}
		for p, before := range greatest {
			if !overlap(p, h.Name) {
				continue
			}
			if err := safety.FenceRises(fence, before); err != nil {
				c.say("I16", h.At, h.Name, "%v, of %s", err, p)
			}
		}
		greatest[h.Name] = max(greatest[h.Name], fence)
	}
}

// refusedPaths looks for calls that did not wait, and were refused although nobody had or wanted an
// overlapping path meanwhile.
func (c *checker) refusedPaths() {
	var refused []Event
	for _, e := range c.events {
		if e.Op == Refused && e.Tried && e.Err == "held" && isPath(e.Name) {
			refused = append(refused, e)
		}
	}
	if len(refused) == 0 {
		return
	}
	wanted := c.wantedPaths()
	for _, e := range refused {
		self := heldSpan{e.Call, e.At, e.Other}
		switch {
		case meets(wanted, self, func(p string) bool { return overlap(p, e.Name) }):
		case behindQueue(wanted, self, e.Name):
			c.queued++
		default:
			c.say("I16", e.At, e.Name, "worker %d was refused, and nobody had or wanted an overlapping path", e.Worker)
		}
	}
}

// meets reports whether a path that matches was wanted or held at the same time by another call.
func meets(wanted map[string][]heldSpan, self heldSpan, matches func(path string) bool) bool {
	for p, spans := range wanted {
		if matches(p) && slices.ContainsFunc(spans, func(s heldSpan) bool { return s.at(self) }) {
			return true
		}
	}
	return false
}

// at reports whether two spans of different calls have a time in common.
func (s heldSpan) at(o heldSpan) bool { return s.hold != o.hold && s.from <= o.to && s.to >= o.from }

// behindQueue reports whether another call may still have waited for a folder of a path, behind one
// that had the folder or a folder above it alone. A call that does not wait does not overtake it.
func behindQueue(wanted map[string][]heldSpan, self heldSpan, name string) bool {
	folders := withFolders(path.Dir(name))
	return meets(wanted, self, func(p string) bool {
		common := slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return !overlap(f, p) })
		return slices.ContainsFunc(wanted[p], func(s heldSpan) bool {
			return s.at(self) && meets(wanted, s, func(q string) bool { return slices.Contains(common, q) })
		})
	})
}

// A call that was refused returns after quickly, if the store confirms the releases of the locks that
// it had. Otherwise the Locker releases them in the background, which may take giveBack.
const (
	quickly  = int64(250 * time.Millisecond)
	giveBack = int64(time.Second)
)

// wantedPaths returns when each path was wanted or may have been held. The field hold of a span is the
// number of the call.
func (c *checker) wantedPaths() map[string][]heldSpan {
	wanted := map[string][]heldSpan{}
	add := func(name string, from, to, call int64) { wanted[name] = append(wanted[name], heldSpan{from, to, call}) }
	held := map[int64]*Hold{}
	for _, h := range c.holds {
		held[h.ID] = h
	}
	asked := map[int64]Event{}
	dead := c.NoticesLate + c.Coarse + slack
	for _, e := range ordered(c.events) {
		switch {
		case e.Op == Killed:
			for id, a := range asked {
				if a.Worker == e.Worker && a.Life == e.Life {
					add(a.Name, a.Call, e.At+a.TTL+dead, id)
					delete(asked, id)
				}
			}
		case !isPath(e.Name) || e.Other == 0:
		case e.Op == Asked:
			asked[e.Other] = e
		case e.Op == Acquired:
			delete(asked, e.Other)
			to := held[e.Hold].mayLive(slack + c.Coarse)
			if held[e.Hold].died != 0 {
				to = max(to, held[e.Hold].died+e.TTL+dead)
			}
			add(e.Name, e.Call, to, e.Other)
		case e.Op == Refused:
			delete(asked, e.Other)
			late := int64(0)
			switch {
			case e.Err != "held":
				late = e.TTL + dead
			case e.At-e.Call >= quickly || c.faults.timeBetween(e.Call, e.At) > 0:
				late = giveBack
			}
			add(e.Name, e.Call, e.At+late, e.Other)
		}
	}
	for id, a := range asked {
		add(a.Name, a.Call, forever, id)
	}
	return wanted
}
