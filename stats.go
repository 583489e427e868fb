package padlock

// Stats counts the locks and calls of a Locker. Held, Waiting and CleanUps are current numbers. All
// other numbers are totals since New.
type Stats struct {
	Held, Waiting                        int    // now
	Acquired, Contended, Refused         uint64 // calls
	Renewals, RenewalErrors              uint64
	Lost                                 uint64 // how often EventLost happened
	Uncertain, CleanUps, CleanUpsDropped uint64 // CleanUps: under way now
}

// counters is guarded by Locker.mu.
type counters struct {
	tokens                       uint64
	waiting                      int
	acquired, contended, refused uint64
	renewals, renewalErrors      uint64
	lost, uncertain, dropped     uint64
}

// Stats returns the current counts.
func (l *Locker) Stats() Stats {
	l.mu.Lock()
	defer l.unlock()
	s := &l.stats
	return Stats{
		Held: len(l.renewer.heap) - l.renewer.gates, Waiting: s.waiting,
		Acquired: s.acquired, Contended: s.contended, Refused: s.refused,
		Renewals: s.renewals, RenewalErrors: s.renewalErrors, Lost: s.lost,
		Uncertain: s.uncertain, CleanUps: uint64(l.cleaner.open), CleanUpsDropped: s.dropped,
	}
}
