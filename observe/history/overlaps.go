package history

import (
	"cmp"
	"slices"
	"time"
)

// Overlap is a time during which two runs of a name, or of a slot of it, worked at once.
type Overlap struct {
	First, Second *Run // Second has the greater fence

	// From and To are times of the store's clock or, if that is unknown, of the clock of the second
	// run's host.
	From, To time.Time

	// ByClocks is true if the clocks of two hosts alone say that the runs overlapped: the fences of
	// the store do not contain its time. A difference of the clocks as long as the overlap would
	// explain it.
	ByClocks bool
}

// Placed is a run and when it worked, as far as that is known, by the clock of which Overlap speaks.
type Placed struct {
	*Run
	From, To time.Time
}

// Afterwards is what the runs of a name tell about the question whether two worked at once.
type Afterwards struct {
	Runs     int                      // how many runs were compared
	Placed   []Placed                 // those that have ended, by their fences
	Overlaps []Overlap                // by the time at which they began
	Lost     []*Run                   // runs that lost their lock: they may have worked on for a moment
	Open     []*Run                   // runs without an end, of which nobody knows when they stopped
	Clocks   map[string]time.Duration // how far the clock of each host is ahead of that of the store; without fences from a clock it is empty
}

// fenceClock is how far a fence that contains the time of the store may be from the clock of a host.
const fenceClock = 24 * time.Hour

// farFence is how far a fence may be from what its host's other runs let expect. One that is farther
// off was raised, for example by FenceAbove, and says nothing about the time.
const farFence = time.Second

// CheckOverlaps compares the runs of one name. The fences are the proof of the order: the run with the
// greater fence got the lock later. Most stores make a fence of the microseconds of their clock. Then a
// run began at its fence, and ended as much later as it took by the clock of its own host, so that
// differences between the clocks of hosts count for nothing. Two shared runs never overlap, and neither do
// two with one fence. Runs that are still going on, were skipped, or have no fence are not compared.
func CheckOverlaps(runs []Run) Afterwards {
	out := Afterwards{Clocks: map[string]time.Duration{}}
	bySlot := map[int][]*Run{}
	ahead := map[string][]time.Duration{}
	for i := range runs {
		r := &runs[i]
		if r.Skipped || r.Fence == 0 {
			continue
		}
		out.Runs++
		bySlot[r.Slot] = append(bySlot[r.Slot], r)
		if d := r.Start.Sub(granted(r)); d.Abs() < fenceClock {
			ahead[r.Host] = append(ahead[r.Host], d)
		}
		switch {
		case r.Outcome() == NoEnd:
			out.Open = append(out.Open, r)
		case r.Reason == "lost":
			out.Lost = append(out.Lost, r)
		}
	}
	for host, all := range ahead {
		slices.Sort(all)
		out.Clocks[host] = all[len(all)/2]
	}
	for _, same := range bySlot {
		out.compare(same)
		for _, r := range same {
			if from, to, _ := out.span(r); !r.End.IsZero() {
				out.Placed = append(out.Placed, Placed{r, from, to})
			}
		}
	}
	slices.SortFunc(out.Placed, func(a, b Placed) int { return cmp.Compare(a.Fence, b.Fence) })
	slices.SortFunc(out.Overlaps, func(a, b Overlap) int { return a.From.Compare(b.From) })
	for _, list := range [][]*Run{out.Lost, out.Open} {
		slices.SortFunc(list, func(a, b *Run) int { return a.Start.Compare(b.Start) })
	}
	return out
}

// granted returns the time that the fence of a run contains.
func granted(r *Run) time.Time { return time.UnixMicro(int64(r.Fence)) }

// span returns when the run worked, by the store's clock. If that is unknown, it returns the times of
// its host, and byClock is false. It rather returns a part of the run than too much.
func (a *Afterwards) span(r *Run) (from, to time.Time, byClock bool) {
	ahead, known := a.Clocks[r.Host]
	if !known || (r.Start.Sub(granted(r))-ahead).Abs() > farFence {
		return r.Start, r.End, false
	}
	from = r.Start.Add(-ahead)
	if at := granted(r); at.After(from) {
		from = at
	}
	end := granted(r).Add(r.Duration())
	if at := r.End.Add(-ahead); at.Before(end) {
		end = at
	}
	return from, end, true
}

// compare finds the overlaps of runs of one slot.
func (a *Afterwards) compare(runs []*Run) {
	slices.SortFunc(runs, func(x, y *Run) int { return cmp.Compare(x.Fence, y.Fence) })
	for i, first := range runs {
		if first.End.IsZero() {
			continue
		}
		_, end, byStore := a.span(first)
		for _, second := range runs[i+1:] {
			if second.Fence == first.Fence || first.Shared && second.Shared {
				continue
			}
			from, to, bothByStore := a.span(second)
			bothByStore = bothByStore && byStore
			if !bothByStore { // only the clocks of the hosts are left
				from, to, end = second.Start, second.End, first.End
			}
			if to.IsZero() || end.Before(to) {
				to = end
			}
			if from.Before(to) {
				a.Overlaps = append(a.Overlaps, Overlap{first, second, from, to, !bothByStore})
			}
		}
	}
}
