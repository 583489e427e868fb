package storekit

import (
	"sync/atomic"
	"time"
)

// RoundTrips has the times that the last two requests of a store took. It is safe for concurrent
// use.
type RoundTrips struct{ last, before atomic.Int64 }

// Note records the time of a request.
func (t *RoundTrips) Note(d time.Duration) { t.before.Store(t.last.Swap(int64(d))) }

// Shorter returns the shorter one of the two times, so a single hiccup does not count. It is 0
// before two requests.
func (t *RoundTrips) Shorter() time.Duration {
	return time.Duration(min(t.last.Load(), t.before.Load()))
}
