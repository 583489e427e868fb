package drivertest

import "time"

// On an overloaded machine, leases and reservations may run out between two lines of a case. Such a
// case proves nothing about the store, so it runs again. A store with a bug fails on a quiet
// machine too. checkInterval is how often the process checks that it runs. A failed case runs again
// if the process stood still for longer than maxStandstill.
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

// watch measures how late each wake-up comes. That includes the last interval, which the end of the
// case may cut short.
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
