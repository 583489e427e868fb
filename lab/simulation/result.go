package simulation

import (
	"fmt"
	"time"
)

// Result is what a scenario counted. All times are in the simulated time of the processes.
type Result struct {
	Grants    int
	PerGrant  float64 // requests for each grant
	Jain      float64 // Jain's index of the grants of the processes; 1 means that all have the same number
	Overlaps  int     // grants of a name that another process was still using
	OldFences int     // grants whose fence was not greater than the fence before
	Refusals  int     // calls of Acquire that did not get the name in time
	Failed    int     // calls of Acquire that returned another error
	Lost      int     // locks that were lost

	PerSecond   int           // the greatest number of requests in one second, before an outage
	Peak        int           // the greatest number of requests in one second, after the beginning of an outage
	Refused     int           // the greatest number of refused connections in one second
	Backlog     int           // the greatest number of requests that waited for the server at one time, after the first second
	AllServed   time.Duration // from the end of the outage until the last process was served
	LongestWait time.Duration
	Took        time.Duration
}

// countBySecond sets PerSecond, Peak, Refused and Backlog.
func (r *Result) countBySecond(slots []slot, o Outage) {
	const second = int(time.Second / slotLength)
	slots = slots[:min(len(slots), int(r.Took/slotLength))]
	stop := len(slots)
	if o.At > 0 {
		stop = int(o.At / slotLength)
	}
	for i := range slots {
		requests, refused := 0, 0
		for _, s := range slots[i:min(i+second, len(slots))] {
			requests += s.requests
			refused += s.refused
		}
		r.Refused = max(r.Refused, refused)
		switch {
		case i >= stop:
			r.Peak = max(r.Peak, requests)
		case i >= warm && i+second <= stop:
			r.PerSecond = max(r.PerSecond, requests)
		}
		if i >= warm {
			r.Backlog = max(r.Backlog, slots[i].backlog)
		}
	}
}

// Requests at the beginning of a scenario do not count, because the processes start one after the
// other during that time. warm is the number of slots (units of time) that are left out for this
// reason.
const warm = int(time.Second / slotLength)

// jain returns Jain's index of fairness: (Σn)² / (N·Σn²).
func jain(ns []int) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range ns {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(ns)) * squares)
}

// String returns the result in one line.
func (r Result) String() string {
	return fmt.Sprintf("%d grants in %v, %.2f requests each, Jain %.4f, longest wait %v, %d requests/s, peak %d/s, refused %d/s, backlog %d, all served after %v; %d overlaps, %d old fences, %d refusals, %d failed, %d lost",
		r.Grants, r.Took.Round(time.Millisecond), r.PerGrant, r.Jain, r.LongestWait.Round(time.Millisecond),
		r.PerSecond, r.Peak, r.Refused, r.Backlog, r.AllServed.Round(time.Millisecond),
		r.Overlaps, r.OldFences, r.Refusals, r.Failed, r.Lost)
}
