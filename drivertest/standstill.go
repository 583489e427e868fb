package drivertest

import "time"

// On an overloaded machine, leases and reservations may run out between two lines of a case. Such a
// case proves nothing about the store, so it runs again. A store with a bug fails on a quiet
// machine too.
const (
	lookout   = 20 * time.Millisecond
	tolerated = 30 * time.Millisecond
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
		look := time.NewTimer(lookout)
		select {
		case <-look.C:
			longest = max(longest, time.Since(began)-lookout)
		case <-s.stop:
			look.Stop()
			s.longest <- max(longest, time.Since(began)-lookout)
			return
		}
	}
}

// endWatch ends the watch and returns the longest standstill that it saw.
func (s *standstill) endWatch() time.Duration {
	close(s.stop)
	return <-s.longest
}
