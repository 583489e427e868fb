// Package histogram counts durations for package metrics. Package padlock adds durations to a
// Histogram directly, because that is faster than a call of package metrics.
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

// Histogram counts durations. Locks in memory are often held for a very short time. So a duration
// in the first bucket costs only one atomic addition, to shortTimes. Before shortTimes overflows,
// Drain moves its contents to the other fields. The zero Histogram is empty. Its methods are safe
// for concurrent use.
type Histogram struct {
	shortTimes atomic.Uint64 // count * shortOne + sum in nanoseconds

	mu      sync.Mutex // guards the fields below
	buckets Buckets
	sum     time.Duration
}

// Histogram.shortTimes has two parts. The upper 20 bits are the number of short durations. The
// lower 44 bits are their sum in nanoseconds. A short duration is at most a millisecond, which is
// less than 2^20 ns. So the sum of 2^20 short durations fits in 40 bits.
//
// When shortTimes reaches shortMost, half of its range is used, and Add calls Drain. The other half
// is for durations that other goroutines add until Drain is done.
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

// addSlowly is called by Add for a duration that does not belong to the first bucket, and when
// Drain must be called.
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
