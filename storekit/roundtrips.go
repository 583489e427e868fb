package storekit

import (
	"sync/atomic"
	"time"
)

// RoundTrips has the times of a store's last two requests. It is safe for concurrent use.
type RoundTrips struct{ last, before atomic.Int64 }

// Note adds a time.
func (t *RoundTrips) Note(d time.Duration) { t.before.Store(t.last.Swap(int64(d))) }

// Shorter returns the shorter time, so a single hiccup does not count, or 0 before two requests.
func (t *RoundTrips) Shorter() time.Duration {
	return time.Duration(min(t.last.Load(), t.before.Load()))
}
