package soak

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

// The name of the weights has unitCount permits. A call takes up to maxWeight of them. One that takes
// largeWeight or more is large: it wants more than half, and has its place in the queue at once.
const (
	unitCount   = 10
	maxWeight   = 8
	largeWeight = 6
	weightsMark = "weights"
)

func weightsName(prefix string) string { return prefix + weightsMark }

// weigh takes permits with Weight, and now and then one without, until ctx ends or the run is over.
// Most calls wait without a limit, and are not given up.
func (w *worker) weigh(ctx context.Context) {
	l := &w.dice.load
	for patient := context.WithoutCancel(ctx); ctx.Err() == nil && !w.monitor.Over(); pause(ctx, w.dice.between(0, l.MaxHold)) {
		t := turn{
			name: weightsName(l.Prefix), ttl: w.dice.between(l.MinTTL, l.MaxTTL), hold: w.dice.between(l.MinHold, l.MaxHold),
			slots: unitCount, weight: 1 + w.dice.IntN(maxWeight), try: w.dice.percent(20), verify: w.dice.percent(l.Verify),
		}
		opts := []padlock.Option{padlock.Slots(unitCount), padlock.TTL(t.ttl)}
		if t.try {
			opts = append(opts, padlock.Wait(0))
		}
		if w.dice.percent(20) {
			t.weight = 0
			w.takeOne(patient, t, opts)
			continue
		}
		e := w.asks(&t)
		all, err := w.locker.AcquireAll(patient, []string{t.name}, append(opts, padlock.Weight(t.weight))...)
		if err != nil {
			w.refused(ctx, e, err)
			continue
		}
		names := []string{}
		for _, slot := range all.Slots() {
			names = append(names, fast.SlotName(t.name, slot))
		}
		w.bundled(e, all, t, 0, names...).use(false)
	}
}

// takeOne takes a permit without Weight.
func (w *worker) takeOne(ctx context.Context, t turn, opts []padlock.Option) {
	e := w.asks(&t)
	lock, err := w.locker.Acquire(ctx, t.name, opts...)
	if err != nil {
		w.refused(ctx, e, err)
		return
	}
	w.bundled(e, lock, t, 0, storedName(lock)).use(false)
}

// A request is a call for permits of the weights.
type request struct {
	id, begun, ended int64
	life             life
	weight           int
	tried            bool
	outcome          string // "" for a grant, the class of an error, diedFirst, or unserved
}

// A life is a process. After a kill, another one has the number of its worker.
type life struct{ worker, number int }

const unserved = "unserved"

// requests assembles the calls from their events, in the order of their ends.
func requests(events []Event) (all []*request) {
	byID := map[int64]*request{}
	for _, e := range ordered(events) {
		r := byID[e.Other]
		switch {
		case e.Op == Killed:
			for _, r := range all {
				if r.outcome == unserved && r.life == (life{e.Worker, e.Life}) {
					r.ended, r.outcome = e.At, diedFirst
				}
			}
		case e.Slots != unitCount:
		case e.Op == Asked && strings.HasSuffix(e.Name, weightsMark):
			r = &request{id: e.Other, begun: e.Call, ended: forever, life: life{e.Worker, e.Life}, weight: e.Weight, tried: e.Tried, outcome: unserved}
			byID[e.Other] = r
			all = append(all, r)
		case r != nil && r.outcome == unserved && (e.Op == Acquired || e.Op == Refused):
			r.ended, r.outcome = e.At, e.Err
		}
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(a.ended, b.ended) })
	return all
}

// weights checks I17: everybody who waits without a limit is served, unless the store has failed.
func (c *checker) weights() {
	for _, r := range requests(c.events) {
		if !r.tried && (r.outcome == unserved || r.outcome == "held") {
			c.say("I17", r.begun, weightsMark, "a call for %d permits that waits without a limit was not served (%s)", max(1, r.weight), r.outcome)
		}
	}
}

// Waits says how many requests were served before the large ones that waited.
type Waits struct {
	Large   int
	Longest time.Duration
	// The request before which the most others were served, of those that may wait, too: their number,
	// how many of them began after it, and the most that there may be if no gate is lost. Those that
	// are under way when it begins may be before it. The callers of one process form a line, whose first
	// is in the store's queue; so one of each other process may be before it, and before each of those
	// that are before it in its line.
	Before, Later, Bound int
	Beyond               int // requests before which more were served than this bound
	Unexplained          int // those of them that no long stop explains; see gateSpell
	Overtook             int // the most that did not wait and were served before one request
}

func (w Waits) String() string {
	return fmt.Sprintf("%d large requests waited, at most %v; served before one at most %d (%d of them began after it), where %d may be if no gate is lost (more than may be: before %d, of which %d without a long stop of the store or of a process); of those that do not wait %d",
		w.Large, w.Longest.Round(time.Millisecond), w.Before, w.Later, w.Bound, w.Beyond, w.Unexplained, w.Overtook)
}

// gateSpell is the shortest stop of the store or of a process in which a waiting call can lose its gate,
// and with it its place. The lease of a gate is one second, and is renewed every third of it.
const gateSpell = int64(500 * time.Millisecond)

// waitsOf measures how many requests were served before each large one.
func waitsOf(events []Event) (w Waits) {
	all := requests(events)
	var stops spells
	for _, e := range events {
		if e.Op == Faulted || e.Op == Stalled {
			stops = append(stops, [2]int64{e.Call, e.At})
		}
	}
	stops = slices.DeleteFunc(stops.merged(), func(s [2]int64) bool { return s[1]-s[0] < gateSpell })
	for _, r := range all {
		if r.tried || r.outcome != "" || r.weight < largeWeight {
			continue
		}
		var beside []*request
		for _, x := range all {
			if x != r && x.begun < r.ended && x.ended > r.begun {
				beside = append(beside, x)
			}
		}
		if w.add(r, beside) && stops.timeBetween(r.begun, r.ended) == 0 {
			w.Unexplained++
		}
	}
	return w
}

// add counts the requests before r, of those that were under way beside it. It reports whether more were
// served before it than may be.
func (w *Waits) add(r *request, beside []*request) bool {
	w.Large++
	w.Longest = max(w.Longest, time.Duration(r.ended-r.begun))
	others := map[life]bool{}
	for _, x := range beside {
		if x.life != r.life {
			others[x.life] = true
		}
	}
	before, later, overtook, bound := 0, 0, 0, len(others)
	for _, x := range beside {
		if x.tried || x.begun > r.begun {
			continue
		}
		if bound++; x.life == r.life {
			bound += len(others)
		}
	}
	for _, x := range beside {
		if x.ended > r.ended || x.outcome != "" {
			continue
		}
		if x.tried {
			overtook++
			continue
		}
		before++
		if x.begun > r.begun {
			later++
		}
	}
	if before > w.Before {
		w.Before, w.Later, w.Bound = before, later, bound
	}
	if before > bound {
		w.Beyond++
	}
	w.Overtook = max(w.Overtook, overtook)
	return before > bound
}
