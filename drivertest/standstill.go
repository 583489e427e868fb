package drivertest

import "time"

// On an overloaded machine, leases and reservations may run out between two lines of a case. A
// failure then proves nothing about the store, so the case runs again. If the store has a bug, the
// case fails on a quiet machine too. To notice a standstill, a goroutine wakes up every
// checkInterval. If one of the wake-ups is late by more than maxStandstill, a failed case runs
// again.
const (
	checkInterval = 20 * time.Millisecond
	maxStandstill = 30 * time.Millisecond
)

// standstill measures the longest time for which this process did not run.
type standstill struct {
	stop    chan struct{}
	longest chan time.Duration
}

func watchStandstill() *standstill {
	s := &standstill{make(chan struct{}), make(chan time.Duration)}
	go s.watch()
	return s
}

// watch sets one timer after another, and measures how late each timer fires. The case may end
// during a standstill, before the last timer has fired. So at the end of the case, watch also
// measures how late the last timer is by then.
func (s *standstill) watch() {
	var longest time.Duration
	for {
		began := time.Now()
		look := time.NewTimer(checkInterval)
		select {
		case <-look.C:
			longest = max(longest, time.Since(began)-checkInterval)
		case <-s.stop:
			look.Stop()
			s.longest <- max(longest, time.Since(began)-checkInterval)
			return
		}
	}
}

// endWatch ends the watch and returns the longest standstill that it saw.
func (s *standstill) endWatch() time.Duration {
	close(s.stop)
	return <-s.longest
}
