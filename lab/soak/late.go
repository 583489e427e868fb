package soak

// A delay says how late a worker may learn that its hold has ended. It is zero if holders know in
// advance when their holds end.
type delay struct {
	most   int64
	stalls map[int]spells // when each worker or the engine stood still
}

func delayOf(events []Event) delay {
	late := PromisesOf(events).LearnsLate
	if late == 0 {
		return delay{}
	}
	return delay{most: late + int64(catchUp), stalls: stallsOf(events)}
}

// stallsOf returns when each worker and the engine stood still.
func stallsOf(events []Event) map[int]spells {
	stalls := map[int]spells{}
	for _, e := range events {
		if e.Op == Stalled {
			stalls[e.Worker] = append(stalls[e.Worker], [2]int64{e.Call, e.At})
		}
	}
	for w, list := range stalls {
		stalls[w] = list.merged()
	}
	return stalls
}

// markDoubt is for a hold whose release was not confirmed. Such a hold may have ended earlier than
// its worker says, because the worker may have learned of the end too late. markDoubt shortens the
// hold to the time in which it certainly existed. The hold still existed when the worker began its
// last call that succeeded.
func (d *delay) markDoubt(h *Hold) {
	n := len(h.Spans)
	if d.most == 0 || h.Ends != 0 || n == 0 {
		return
	}
	last := &h.Spans[n-1]
	from := d.livedUntil(h.Worker, last.To)
	for _, e := range h.Events {
		if e.Err == "" && (e.Op == Verified || e.Op == Promoted || e.Op == Demoted) {
			from = max(from, min(e.Call, last.To))
		}
	}
	h.Doubt = max(from, h.Call)
	last.To = h.Doubt
}

// livedUntil returns a time at which a hold certainly still existed. The worker noticed at
// noticedAt that the hold had ended. livedUntil subtracts the longest possible delay.
func (d *delay) livedUntil(worker int, noticedAt int64) int64 {
	from := noticedAt - d.most
	return from - d.stalls[worker].timeBetween(from, noticedAt) - d.stalls[engine].timeBetween(from, noticedAt)
}

// doubted reports whether the store may have ended a hold before the given time.
func (h *Hold) doubted(at int64) bool { return h.Doubt != 0 && at >= h.Doubt }
