package drivertest

import (
	"sync"
	"time"
)

// On a busy machine, a process stands still now and then. Something that a case expects within a
// short time may then come late although the store is right. To notice a standstill, a goroutine
// wakes up every checkInterval and measures how late it is.
const checkInterval = 20 * time.Millisecond

// standstill measures the longest time for which this process did not run.
type standstill struct {
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	next time.Time // when the goroutine should wake up
	most time.Duration
}

func watchStandstill() stillness {
	s := &standstill{stop: make(chan struct{}), next: time.Now().Add(checkInterval)}
	s.done.Go(s.watch)
	return s
}

// stillness is a standstill, or in tests something else.
type stillness interface {
	longest() time.Duration
	end()
}

func (s *standstill) watch() {
	for {
		look := time.NewTimer(checkInterval)
		select {
		case <-look.C:
			s.longest()
			s.mu.Lock()
			s.next = time.Now().Add(checkInterval)
			s.mu.Unlock()
		case <-s.stop:
			look.Stop()
			return
		}
	}
}

// longest returns the longest standstill until now. If the goroutine should have woken up already,
// that counts.
func (s *standstill) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, time.Since(s.next))
	return s.most
}

// end ends the watch.
func (s *standstill) end() {
	close(s.stop)
	s.done.Wait()
}
