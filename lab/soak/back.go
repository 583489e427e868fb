package soak

import (
	"context"
	"fmt"
	"time"
)

// backIn is how soon after a fault a store grants again, unless Run.Back says otherwise.
const backIn = 10 * time.Second

// backs returns for each kind of fault the longest time after which a worker got a lock that it
// asked for after the end of the fault. Each worker has connections of its own, and one that keeps
// a dead connection must not hide behind the others. A later fault begins a new count, because it
// may be what the worker waits for, and the time of faults that are under way is left out. The
// function say gets each of these times; it may be nil.
func backs(events []Event, stalls map[int]spells, say func(e *Event, kind string, took time.Duration)) map[string]time.Duration {
	longest := map[string]time.Duration{}
	var hits spells
	for _, e := range events {
		if e.Op == Faulted {
			hits = append(hits, [2]int64{e.Call, e.At})
		}
	}
	hits = hits.merged()
	var last Event
	served := map[int]bool{} // since the last fault
	for _, e := range ordered(events) {
		switch {
		case e.Op == Faulted:
			last = e
			clear(served)
		case e.Op == Acquired && last.At != 0 && e.Call > last.At && !served[e.Worker]:
			served[e.Worker] = true
			took := e.At - last.At - hits.timeBetween(last.At, e.At) - stalls[e.Worker].timeBetween(last.At, e.At)
			longest[last.Err] = max(longest[last.Err], time.Duration(took))
			if say != nil {
				say(&e, last.Err, time.Duration(took))
			}
		}
	}
	return longest
}

// checkBack checks I13 for the workers that got a lock again. The engine notes the others; see
// awaitBack.
func (c *checker) checkBack() {
	most := max(backIn, time.Duration(c.Back))
	backs(c.events, c.stalls, func(e *Event, kind string, took time.Duration) {
		if took > most {
			c.say("I13", e.At, e.Name, "worker %d got no lock until %v after the fault %s", e.Worker, took, kind)
		}
	})
}

// awaitBack waits until each worker has got a lock that it asked for after the last fault, which
// was over at quiet. If that takes longer than I13 allows, awaitBack logs it.
func (r *Run) awaitBack(ctx context.Context, quiet int64) {
	for _, faults := r.monitor.sums(); faults > 0 && ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
		worker, all := r.monitor.servedSince(quiet, r.Workers)
		if all {
			return
		}
		if clockNow()-quiet-r.monitor.stallTime(quiet) > int64(max(backIn, r.Back)) {
			r.monitor.Log(Event{Op: Broken, Worker: engine, Call: quiet, At: clockNow(), Err: fmt.Sprintf("I13 worker %d got no lock for %v after the last fault", worker, time.Duration(clockNow()-quiet))})
			return
		}
	}
}

// servedSince reports whether each worker has got a lock that it asked for after the given time. If
// not, the first result is one that has not.
func (c *Monitor) servedSince(at int64, workers int) (worker int, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for worker := range workers {
		if c.served[worker] <= at {
			return worker, false
		}
	}
	return 0, true
}
