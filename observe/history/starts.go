package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Start is one start of a job: the run, and the runs that were skipped because several machines
// started the job at the same time.
type Start struct {
	At      time.Time // when the first of these runs asked for the lock
	Run     *Run      // nil if all were skipped
	Skipped []*Run    // the oldest first
}

// sameStart is how far apart the clocks of several machines, and the delays of their timers, may be
// for one start.
const sameStart = 30 * time.Second

// asked returns when a run asked for the lock.
func (r *Run) asked() time.Time { return r.Start.Add(-r.Waited) }

// Starts puts runs of one name together that belong to one start, and returns the starts, the
// newest first. Runs belong together if they asked for the lock within half a minute, each on
// another host, and at most one of them began. The starts point to the elements of runs.
func Starts(runs []Run) []Start {
	var order []*Run
	for i := range runs {
		order = append(order, &runs[i])
	}
	slices.SortStableFunc(order, func(a, b *Run) int { return cmp.Or(a.asked().Compare(b.asked()), strings.Compare(a.Host, b.Host)) })
	var all []Start
	for _, r := range order {
		if last := len(all) - 1; last < 0 || !all[last].takes(r) {
			all = append(all, Start{At: r.asked()})
		}
		s := &all[len(all)-1]
		if r.Skipped {
			s.Skipped = append(s.Skipped, r)
		} else {
			s.Run = r
		}
	}
	slices.Reverse(all)
	return all
}

// takes reports whether r belongs to the start.
func (s *Start) takes(r *Run) bool {
	if r.asked().Sub(s.At) > sameStart || s.Run != nil && (!r.Skipped || s.Run.Host == r.Host) {
		return false
	}
	return !slices.ContainsFunc(s.Skipped, func(other *Run) bool { return other.Host == r.Host })
}

// Last returns the run of the start or, if there is none, the run that was skipped last.
func (s *Start) Last() *Run {
	if s.Run != nil {
		return s.Run
	}
	return s.Skipped[len(s.Skipped)-1]
}

// SkippedOn names at most four of the hosts on which the start was skipped, as show writes them.
func (s *Start) SkippedOn(show func(host string) string) string {
	const most = 4
	var hosts []string
	for _, r := range s.Skipped[:min(len(s.Skipped), most)] {
		hosts = append(hosts, show(r.Host))
	}
	text := strings.Join(hosts, ", ")
	if more := len(s.Skipped) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// isOn reports whether a run of the start was on the host, even if it was skipped.
func (s *Start) isOn(host string) bool {
	return s.Run != nil && s.Run.Host == host || slices.ContainsFunc(s.Skipped, func(r *Run) bool { return r.Host == host })
}

// Failed reports whether the run failed, or has no end although it no longer holds the lock.
func (s *Start) Failed() bool {
	if s.Run == nil {
		return false
	}
	outcome := s.Run.Outcome()
	return outcome == Failure || outcome == NoEnd
}
