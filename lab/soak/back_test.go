package soak

import (
	"strings"
	"testing"
	"time"
)

// Each worker must get a lock again within ten seconds after the last fault.
func TestCheckBack(t *testing.T) {
	const s = 1000 * ms
	fault := func(call, at int64) Event {
		return Event{Op: Faulted, Worker: engine, Call: call, At: at, Err: "swap"}
	}
	got := func(worker int, call, at int64) Event {
		return Event{Op: Acquired, Worker: worker, Name: "n", Hold: at, Call: call, At: at, Fence: uint64(at)}
	}
	for name, c := range map[string]struct {
		want   time.Duration
		broken int
		events []Event
	}{
		"soon":                                   {1 * time.Second, 0, []Event{fault(1*s, 2*s), got(1, 2*s+1, 3*s)}},
		"late":                                   {11 * time.Second, 1, []Event{fault(1*s, 2*s), got(1, 12*s, 13*s)}},
		"one of two workers is late":             {11 * time.Second, 1, []Event{fault(1*s, 2*s), got(2, 2*s+1, 3*s), got(1, 12*s, 13*s)}},
		"the lock was asked for before":          {11 * time.Second, 1, []Event{fault(1*s, 2*s), got(1, 2*s, 3*s), got(1, 12*s, 13*s)}},
		"late, and another fault in between":     {7 * time.Second, 0, []Event{fault(1*s, 2*s), fault(5*s, 6*s), got(1, 12*s, 13*s)}},
		"late, and another fault is under way":   {9 * time.Second, 0, []Event{fault(1*s, 2*s), got(1, 12*s, 13*s), fault(11*s, 14*s)}},
		"late, because its process stood still":  {8 * time.Second, 0, []Event{fault(1*s, 2*s), got(1, 12*s, 13*s), {Op: Stalled, Worker: 1, Call: 4 * s, At: 7 * s}}},
		"late, where the guard of restarts acts": {11 * time.Second, 0, []Event{promised(Promises{Back: 12 * s}), fault(1*s, 2*s), got(1, 12*s, 13*s)}},
	} {
		found, _ := Check(&Outcome{Events: c.events})
		if took := backs(c.events, stallsOf(c.events), nil)["swap"]; took != c.want || len(found) != c.broken {
			t.Errorf("%s: it took %v, want %v; violations: %v, want %d", name, took, c.want, found, c.broken)
		}
		for _, v := range found {
			if v.Invariant != "I13" {
				t.Errorf("%s: %v", name, v)
			}
		}
	}
}

// The engine waits for each worker's first lock after the last fault, and notes one that gets none.
func TestAwaitBack(t *testing.T) {
	r := &Run{Workers: 2, monitor: NewMonitor()}
	long := clockNow() - int64(backIn+time.Second)
	r.awaitBack(t.Context(), long)
	if h := r.monitor.history(); len(h) != 0 {
		t.Errorf("without a fault: %v", h)
	}
	r.monitor.Log(Event{Op: Faulted, Worker: engine, Call: long, At: long})
	r.monitor.Log(Event{Op: Acquired, Worker: 0, Call: long + 1, At: long + 2})
	r.awaitBack(t.Context(), long)
	if h := r.monitor.history(); len(h) != 3 || !strings.HasPrefix(h[2].Err, "I13 worker 1 ") {
		t.Errorf("worker 1 got no lock: %v", h)
	}
	r.monitor.Log(Event{Op: Acquired, Worker: 1, Call: long + 1, At: long + 2})
	r.awaitBack(t.Context(), long)
	if h := r.monitor.history(); len(h) != 4 {
		t.Errorf("each worker got a lock: %v", h)
	}
}
