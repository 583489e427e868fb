package sampler

import (
	"slices"
	"strings"
	"time"
)

// DayStep is the length of a Step. A Day has DaySteps of them: 24 hours.
const (
	DayStep  = 10 * time.Minute
	DaySteps = 144
)

// Day is what a Sampler saw of a name in the last 24 hours.
type Day struct {
	Start time.Time // the beginning of the first step
	Steps []Step    // DaySteps of them
}

// Step is what a Sampler saw of a name in one part of a Day. All figures are lower bounds, because
// nothing is seen between two samples.
type Step struct {
	Watched time.Duration // how long the Sampler watched the name
	Held    time.Duration // how long the name was held, without cool-downs
	Waiters int           // the most callers that waited
	Lost    int           // holds whose lease ran out
}

// record is a Step as a tracked name keeps it. A name has records only of the steps in which it was
// in use, or was one of the watched names, so most names have few.
type record struct {
	number  int64         // of the step, counted from the year 1970
	watched time.Duration // only of watched names: the others are watched together, see noteWatched
	held    time.Duration
	waiters int
	lost    int
}

// stepAt returns the number of the step that contains t.
func stepAt(t time.Time) int64 { return t.Unix() / int64(DayStep/time.Second) }

// latestRecord returns the record of the step that contains now, after it has removed records that
// are older than a day.
func latestRecord(all []record, now time.Time) ([]record, *record) {
	number := stepAt(now)
	if n := len(all); n == 0 || all[n-1].number < number {
		all = append(slices.DeleteFunc(all, func(r record) bool { return r.number <= number-DaySteps }), record{number: number})
	}
	return all, &all[len(all)-1]
}

// isHeld reports whether somebody holds the name: cool-downs do not count.
func (t *tracked) isHeld() bool {
	for _, p := range t.parts {
		if slices.ContainsFunc(p.holds, func(n *live) bool { return !n.Cooling }) {
			return true
		}
	}
	return false
}

// noteDay adds a sample to the day of the name. The argument known is the time of the sample before
// it, or zero if that one did not know the state of the name, and wasHeld is whether it saw the
// name held. The holds in over have ended.
func (t *tracked) noteDay(s *sight, known time.Time, wasHeld bool, over []Ended) {
	lost := 0
	for i := range over {
		if over[i].How == Expired {
			lost++
		}
	}
	isHeld := t.isHeld()
	if !isHeld && t.waiters <= 0 && lost == 0 && !t.watched {
		return
	}
	var r *record
	t.day, r = latestRecord(t.day, s.now)
	r.waiters, r.lost = max(r.waiters, t.waiters), r.lost+lost
	if known.IsZero() || t.why != "" || !s.continuous {
		return // it is not known what was between the two samples
	}
	if t.watched {
		r.watched += s.now.Sub(known)
	}
	if isHeld && wasHeld {
		r.held += s.now.Sub(known)
	}
}

// noteWatched adds a sample, before which nothing was missed, to the times for which the Sampler knows which names were in use.
func (b *book) noteWatched(now time.Time, last *Snapshot) {
	var r *record
	b.watched, r = latestRecord(b.watched, now)
	r.held += now.Sub(last.Taken)
}

// dayOf returns the 24 hours before now. A name that is not in the book was free, as far as the
// Sampler has not forgotten names since.
func (b *book) dayOf(name string, now time.Time) Day {
	first := stepAt(now) - DaySteps + 1
	d := Day{Start: time.Unix(first*int64(DayStep/time.Second), 0), Steps: make([]Step, DaySteps)}
	t, known := b.names[name], b.forgot
	if t != nil && t.from.Before(known) {
		known = t.from
	}
	isListed := strings.HasPrefix(name, b.set.prefix)
	for _, r := range b.watched {
		if i := r.number - first; isListed && i >= 0 && i < DaySteps && r.number > stepAt(known) {
			d.Steps[i].Watched = min(r.held, DayStep)
		}
	}
	if t == nil {
		return d
	}
	for _, r := range t.day {
		if i := r.number - first; i >= 0 && i < DaySteps {
			s := &d.Steps[i]
			s.Held, s.Waiters, s.Lost = min(r.held, DayStep), r.waiters, r.lost
			s.Watched = max(s.Watched, s.Held, min(r.watched, DayStep))
		}
	}
	return d
}
