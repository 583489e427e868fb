package metrics

import (
	"slices"
	"sync"
	"time"
)

// bounds are the upper bounds of the buckets. The last bucket has no upper bound.
var bounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

// buckets has the number of durations in each bucket. The sum of these is the number of all
// durations.
type buckets [len(bounds) + 1]uint64

// histogram counts durations. The zero histogram is empty. Its methods are safe for concurrent use.
type histogram struct {
	mu      sync.Mutex
	buckets buckets
	sum     time.Duration
}

func (h *histogram) add(d time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buckets[i]++
	h.sum += d
}

// read returns the number of durations in each bucket, and the sum of all durations.
func (h *histogram) read() (b buckets, sum time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buckets, h.sum
}
