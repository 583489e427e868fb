package sampler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/group"
)

// book is what the Sampler remembers.
type book struct {
	set    *settings
	names  map[string]*tracked
	groups map[string]*grouped
	ended  []Ended
	begun  time.Time
	taken  time.Time // the last sample that succeeded
	gap    string    // why the last sample may lack names that are held; "" if it lacks none
	counts bool      // the store counts the callers that wait for a lock

	watched []record  // for how long the samples have seen all names; see noteWatched
	forgot  time.Time // when a name was last forgotten
}

// grouped are the figures of a group of names.
type grouped struct {
	name     string
	figures  Figures
	held     histogram
	waitTime time.Duration
}

// keptAllEnds is how many ended holds are kept for all names together.
const keptAllEnds = 100

func newBook(set *settings, counts bool) book {
	return book{set: set, counts: counts, names: map[string]*tracked{}, groups: map[string]*grouped{}}
}

// heldNames returns the names that were held at the last sample, in the form that the store uses.
func (b *book) heldNames() []string {
	var names []string
	for _, t := range b.names {
		for stored, p := range t.parts {
			if len(p.holds) > 0 && t.name != "" {
				names = append(names, stored)
			}
		}
	}
	return names
}

// snapshot adds a reading, which took from asked to now, to the book, and returns the result. The
// argument last is the previous snapshot.
func (b *book) snapshot(last *Snapshot, r *reading, asked, now time.Time) *Snapshot {
	snap := *last
	snap.Number++
	snap.Tried, snap.Err = now, r.err
	if r.err != nil {
		b.gap = r.err.Error()
		return &snap
	}
	b.taken, b.gap = now, ""
	if r.incomplete != nil {
		b.gap = r.incomplete.Error()
	}
	if b.begun.IsZero() {
		b.begun = now
	}
	snap.Begun, snap.Taken, snap.Incomplete = b.begun, now, r.incomplete
	// Between two looks on demand nothing is known. A minute is short enough for sums, and Prometheus
	// looks as often as that.
	continuous := !last.Taken.IsZero() && last.Err == nil && asked.Sub(last.Taken) <= max(2*last.Cost.Interval, time.Minute)
	b.add(r, asked, now, last, continuous)
	if continuous && b.gap == "" {
		b.noteWatched(now, last)
	}
	snap.Names, snap.Groups = b.rows(now)
	snap.Ended = b.ended
	return &snap
}

// add compares a reading with the last one.
func (b *book) add(r *reading, asked, now time.Time, last *Snapshot, continuous bool) {
	first := last.Taken.IsZero()
	var local map[string]int
	if b.set.local != nil {
		local = b.set.local()
	}
	sights := map[string]*sight{}
	at := func(stored string) *sight {
		key := base(stored)
		if sights[key] == nil {
			sights[key] = &sight{states: map[string]padlock.State{}, unknown: map[string]string{}, complete: r.incomplete == nil, continuous: continuous, interval: last.Cost.Interval, first: first, counts: b.counts, local: local[key], asked: asked, now: now}
		}
		return sights[key]
	}
	for stored, state := range r.states {
		at(stored).states[stored] = state
	}
	for stored, why := range r.unknown {
		at(stored).unknown[stored] = why
	}
	for _, name := range b.set.watched {
		at(name)
	}
	for key, t := range b.names {
		if t.busy() || t.why != "" {
			at(key)
		}
	}
	var over []Ended
	for key, s := range sights {
		if b.names[key] == nil {
			b.names[key] = b.describe(key, now)
		}
		over = append(over, b.names[key].update(s)...)
	}
	b.ended = latest(b.ended, over, keptAllEnds)
	b.forgetIdle(now)
}

// forgetIdle forgets names that are free, if there are too many of them: those that have not been
// used for the longest time.
func (b *book) forgetIdle(now time.Time) {
	if len(b.names) <= b.set.maxNames {
		return
	}
	var idle []string
	for key, t := range b.names {
		if !t.busy() && t.why == "" && !t.watched {
			idle = append(idle, key)
		}
	}
	slices.SortFunc(idle, func(x, y string) int { return b.names[x].used.Compare(b.names[y].used) })
	for _, key := range idle[:max(0, len(idle)-b.set.maxNames)] {
		delete(b.names, key)
		b.forgot = now
	}
}

func (b *book) describe(key string, now time.Time) *tracked {
	name, path := key, ""
	if file, ok := strings.CutPrefix(key, pathMark); ok {
		name, path = "", file
	}
	t := newTracked(name, path, b.groupOf(name), now)
	t.watched = slices.ContainsFunc(b.set.watched, func(w string) bool { return base(w) == key })
	return t
}

func (b *book) groupOf(name string) *grouped {
	g := strings.Clone(group.Of(name)) // a copy, because a part of the name would keep the whole name in memory
	if b.groups[g] == nil && len(b.groups) >= group.Most {
		g = group.Other
	}
	if b.groups[g] == nil {
		b.groups[g] = &grouped{name: g}
	}
	return b.groups[g]
}

// rows describes the names that are in use or watched, and all groups.
func (b *book) rows(now time.Time) ([]Name, []Group) {
	rows := []Name{}
	sums := map[string]*Totals{}
	for name := range b.groups {
		sums[name] = &Totals{}
	}
	for _, t := range b.names {
		if !t.busy() && t.why == "" && !t.watched {
			continue
		}
		n := t.row(now)
		sums[n.Group].Add(&n)
		rows = append(rows, n)
	}
	order(rows)
	groups := []Group{}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g, t := b.groups[name], sums[name]
		groups = append(groups, Group{
			Group: name, Names: t.Names, Holds: t.Holds, Waiters: t.Waiters, Stuck: t.Stuck,
			Figures: g.figures, Usual: g.held.times(), WaitTime: g.waitTime,
		})
	}
	return rows, groups
}

// lookup describes a name as of its last sample.
func (b *book) lookup(name string) (Name, bool) {
	t := b.names[name]
	if t == nil {
		return Name{}, false
	}
	n := t.row(t.seen)
	switch {
	case n.State != Free || t.watched:
	case b.gap != "":
		n.State, n.Why = Unknown, b.gap
	default:
		n.Seen = b.taken
	}
	return n, true
}
