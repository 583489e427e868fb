// Package histogram counts durations for package metrics. Package padlock adds short ones to a
// Histogram without a call of package metrics.
package histogram

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of the buckets. The last bucket has no upper bound.
var Bounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

// Buckets has the number of durations in each bucket. The sum of these is the number of all
// durations.
type Buckets [len(Bounds) + 1]uint64

// Histogram counts durations. Locks in memory are often held for a very short time, so a duration
// in the first bucket costs only one atomic addition, to shortTimes. This field has the count of
// such durations in its upper bits and their sum in its lower bits. Before one of them overflows,
// Drain moves both to the other fields. The zero Histogram is empty. Its methods are safe for
// concurrent use.
type Histogram struct {
	shortTimes atomic.Uint64 // count * shortOne + sum in nanoseconds

	mu      sync.Mutex // guards the fields below
	buckets Buckets
	sum     time.Duration
}

// The field Histogram.shortTimes has a count of durations in its upper 20 bits and their sum, in
// nanoseconds, in its lower 44 bits. Only durations of at most a millisecond are added. Each of
// them has at most 20 bits, so the sum does not overflow before the count.
//
// When the count has reached half of its range, shortTimes is at least shortMost. The count and the
// sum are then moved to other fields. The other half of the range is for goroutines that add
// durations before that is done.
const (
	shortOne  = 1 << 44
	shortMost = 1 << 63
)

// Add counts a duration. The compiler inlines it.
func (h *Histogram) Add(d time.Duration) {
	if uint64(d) > uint64(time.Millisecond) || h.shortTimes.Add(shortOne+uint64(d)) >= shortMost {
		h.addSlowly(d)
	}
}

// addSlowly does what Add leaves to do: it adds a duration that does not belong to the first
// bucket, or makes room in shortTimes.
func (h *Histogram) addSlowly(d time.Duration) {
	if uint64(d) <= uint64(time.Millisecond) {
		h.Drain()
		return
	}
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.mu.Lock()
	h.buckets[i]++
	h.sum += d
	h.mu.Unlock()
}

// Drain moves the count and the sum in shortTimes to the other fields. It returns the number of
// durations in each bucket, and the sum of all durations.
func (h *Histogram) Drain() (b Buckets, sum time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.shortTimes.Swap(0)
	h.buckets[0] += v / shortOne
	h.sum += time.Duration(v % shortOne)
	return h.buckets, h.sum
}
