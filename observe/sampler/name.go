package sampler

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

// part is the lock on a name, or one of its slots. The store keeps each under a name of its own.
type part struct {
	slot  int // or lockItself
	path  string
	fence uint64
	holds []*live
}

// The results of partOf that are no numbers of slots.
const (
	lockItself = -1
	gate       = -2
	companion  = -3 // a question to the holder, or a lock of package newest
	otherName  = -4
)

// partOf says what the stored name is to the name. A name that looks like that of a slot may be the
// name of a lock: then it is the lock itself.
func partOf(name, stored string) int {
	if stored == name {
		return lockItself
	}
	if of := owner(stored); of != stored && of == name {
		return companion
	}
	switch of, slot, isSlot := fast.SplitSlot(stored); {
	case !isSlot || of != name:
		return otherName
	case slot < 0:
		return gate
	default:
		return slot
	}
}

// owner returns the name to which a companion belongs. It returns every other name as it is.
func owner(stored string) string {
	if of, ok := fast.SplitAsk(stored); ok {
		return of
	}
	if of, ok := fast.SplitNewest(stored); ok {
		return of
	}
	return stored
}

// base returns the name without the slot, or that to which a companion belongs.
func base(stored string) string {
	stored = owner(stored)
	if name, _, ok := fast.SplitSlot(stored); ok {
		return name
	}
	return stored
}

// tracked is what the Sampler remembers of a name.
type tracked struct {
	name, path string
	group      *grouped
	watched    bool             // it has a row even while it is free
	parts      map[string]*part // by the name that the store uses
	seen       time.Time        // the last sample that knew the state of all parts
	used       time.Time        // the last sample that saw it in use
	from       time.Time        // the first sample that saw it
	day        []record         // of the last 24 hours, the oldest first
	why        string           // why the state is unknown, or ""
	asked      *padlock.Question

	waiters           int // -1 if unknown
	slotWaiters       int // of these, how many wait for a slot
	waitSince         time.Time
	waiting, waitTime time.Duration

	figures Figures
	held    *histogram // nil until a hold has ended
	ended   []Ended
}

// keptEnds is how many ended holds are kept for each name.
const keptEnds = 8

// unknownFor is how long a name keeps its row after the store became unable to tell its state.
const unknownFor = time.Minute

// sight is the result of one sample for one name: the states of the lock and of its slots.
type sight struct {
	states     map[string]padlock.State // by the name that the store uses
	unknown    map[string]string        // why the state of a lock is unknown, by the same name
	complete   bool                     // a lock in neither of these two maps is free
	continuous bool                     // the previous sample succeeded, and was not long ago: nobody may have looked meanwhile
	interval   time.Duration            // from that sample to this one, if somebody looks
	first      bool                     // no sample before could have shown the name
	counts     bool                     // the store counts the callers that wait for a lock
	local      int                      // how many callers of this process wait; the store counts one
	asked, now time.Time                // when the sample began and ended
}

// partOf says what the stored name is to the name of t.
func (t *tracked) partOf(stored string) int {
	if t.path != "" {
		return lockItself
	}
	return partOf(t.name, stored)
}

func newTracked(name, path string, g *grouped, now time.Time) *tracked {
	return &tracked{name: name, path: path, group: g, parts: map[string]*part{}, seen: now, used: now, from: now}
}

// busy reports whether the name is held, cools down or has waiters.
func (t *tracked) busy() bool {
	if t.waiters > 0 {
		return true
	}
	for _, p := range t.parts {
		if len(p.holds) > 0 {
			return true
		}
	}
	return false
}

// update records what a sample saw of the name, and returns the holds that have ended.
func (t *tracked) update(s *sight) []Ended {
	var known time.Time
	if t.why == "" {
		known = t.seen
	}
	t.why = ""
	wasHeld := t.isHeld()
	for stored := range s.states {
		if t.parts[stored] == nil {
			if slot := t.partOf(stored); slot >= lockItself {
				t.parts[stored] = &part{slot: slot}
			}
		}
	}
	for _, why := range s.unknown {
		t.why = why
	}
	t.asked = nil
	for stored, state := range s.states {
		if q, ok := padlock.QuestionIn(state); ok && t.partOf(stored) == companion {
			t.asked = &q
		}
	}
	var over []Ended
	for stored, p := range t.parts {
		state, known := s.states[stored]
		switch {
		case known || s.complete && s.unknown[stored] == "":
			over = append(over, t.updatePart(p, &state, s)...)
		case t.why == "" && len(p.holds) > 0:
			t.why = "the store did not list it"
		}
		if p.slot >= 0 && len(p.holds) == 0 {
			delete(t.parts, stored)
		}
	}
	t.updateWaiters(s)
	switch {
	case t.why == "":
		t.seen = s.now
	case !t.watched && s.now.Sub(t.seen) > unknownFor: // Snapshot.Incomplete already tells the reader
		t.why, t.parts = "", map[string]*part{}
	}
	if t.busy() {
		t.used = s.now
	}
	t.ended = latest(t.ended, over, keptEnds)
	t.noteDay(s, known, wasHeld, over)
	return over
}

// updatePart compares the holds in this sample with the holds in the previous sample.
func (t *tracked) updatePart(p *part, state *padlock.State, s *sight) []Ended {
	p.path = cmp.Or(state.Path, p.path)
	if state.Fence > 0 {
		p.fence = state.Fence
	}
	before := p.holds
	p.holds = nil
	var began *padlock.Hold
	for _, h := range state.Holds {
		if i := seenBefore(before, &h, state.Fence, s); i >= 0 {
			t.count(Figures{Missed: uint64(before[i].update(h, state.Fence, s))})
			p.holds = append(p.holds, before[i])
			before[i] = nil
			continue
		}
		if !h.Cooling {
			began = &h
		}
		if !h.Cooling && !s.first {
			t.count(Figures{Grants: 1})
		}
		p.holds = append(p.holds, newLive(h, state.Fence, s))
	}
	var over []Ended
	for _, n := range before {
		if n == nil || n.Cooling {
			continue
		}
		e := n.endOf(began, s)
		e.Name, e.Slot = t.name, p.slot
		if e.How == Expired {
			t.count(Figures{Expired: 1})
		}
		if e.Held >= 0 {
			t.addHeld(e.Held)
		}
		over = append(over, e)
	}
	return over
}

// seenBefore returns the index of h among the holds that the previous sample saw, or -1. Several
// readers of one process differ only in their beginnings, so the nearest beginning counts.
func seenBefore(before []*live, h *padlock.Hold, fence uint64, s *sight) int {
	found := -1
	for i, n := range before {
		if n != nil && n.isSame(h, fence, s) && (found < 0 || h.Since.Sub(n.Since).Abs() < h.Since.Sub(before[found].Since).Abs()) {
			found = i
		}
	}
	return found
}

// waitersIn counts the callers that wait for the lock or for one of its slots. A caller that waits
// for a slot holds another lock, the gate, or waits for the gate (see fast.SlotGate). So the
// holder and the waiters of the gate are counted; forSlot is their number. Calls with a weight have that
// gate when they come to their second one, so nobody is counted there. The sum is -1 if the store does
// not count waiters: a state says so, or else, without any state, s.counts does.
func (t *tracked) waitersIn(s *sight) (sum, forSlot int) {
	counts := s.counts || len(s.states) > 0
	for stored, state := range s.states {
		counts = counts && state.Waiters >= 0
		switch t.partOf(stored) {
		case gate:
			if stored != fast.SlotGate(t.name, 0) {
				forSlot += max(0, state.Waiters) + len(state.Holds)
			}
		case lockItself: // nobody queues for a slot itself
			sum = state.Waiters
		}
	}
	if !counts {
		return -1, forSlot
	}
	return sum + forSlot, forSlot
}

func (t *tracked) updateWaiters(s *sight) {
	if t.why != "" {
		t.waiters, t.slotWaiters = -1, 0
		return
	}
	was := t.waiters
	if t.waiters, t.slotWaiters = t.waitersIn(s); s.local > 0 {
		t.waiters = max(t.waiters, s.local)
	}
	waiters := t.waiters
	if waiters <= 0 {
		t.waitSince, t.waiting = time.Time{}, 0
		return
	}
	if t.waitSince.IsZero() {
		t.waitSince = s.now
	} else if s.continuous {
		spent := time.Duration(was+waiters) * s.now.Sub(t.seen) / 2
		t.waiting += spent
		t.waitTime += spent
		t.group.waitTime += spent
	}
}

func (t *tracked) count(f Figures) {
	for _, sum := range []*Figures{&t.figures, &t.group.figures} {
		sum.Grants += f.Grants
		sum.Missed += f.Missed
		sum.Expired += f.Expired
	}
}

func (t *tracked) addHeld(d time.Duration) {
	if t.held == nil {
		t.held = new(histogram)
	}
	t.held.add(d)
	t.group.held.add(d)
}

// row describes the name at the time of a sample.
func (t *tracked) row(now time.Time) Name {
	n := Name{
		Name: t.name, Path: t.path, Group: t.group.name, Why: t.why, Seen: t.seen,
		Waiters: t.waiters, SlotWaiters: t.slotWaiters, WaitSince: t.waitSince, Waiting: t.waiting, WaitTime: t.waitTime,
		Figures: t.figures, Usual: t.held.times(), Ended: slices.Clone(t.ended),
	}
	if t.waiters < 0 {
		n.Waiting = -1
	}
	for stored, p := range t.parts {
		if p.slot < 0 {
			n.Fence, n.Path = p.fence, cmp.Or(p.path, t.path)
		}
		for _, h := range p.holds {
			row := h.row(stored, p.slot, now)
			row.Path = p.path
			n.Holds = append(n.Holds, row)
		}
	}
	sort.Slice(n.Holds, func(i, j int) bool {
		a, b := &n.Holds[i], &n.Holds[j]
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), a.Since.Compare(b.Since), strings.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID)) < 0
	})
	if t.asked != nil && t.asked.Fence >= n.Fence { // a later holder has a greater fence
		n.Asked = t.asked
	}
	n.State = stateOf(&n)
	rank(&n, t.held, &t.group.held)
	return n
}

func stateOf(n *Name) State {
	switch {
	case n.Why != "":
		return Unknown
	case slices.ContainsFunc(n.Holds, func(h Hold) bool { return !h.Cooling }):
		return Held
	case len(n.Holds) > 0:
		return Cooling
	}
	return Free
}

// latest returns the holds that ended last, at most the given number of them. The holds that ended
// latest come first. Snapshots share the list of ended holds, so latest returns a new list and does
// not change the old one.
func latest(ends, added []Ended, most int) []Ended {
	if len(added) == 0 {
		return ends
	}
	all := append(slices.Clone(added), ends...)
	sort.SliceStable(all, func(i, j int) bool { return all[i].End.After(all[j].End) })
	return slices.Clip(all[:min(len(all), most)])
}
