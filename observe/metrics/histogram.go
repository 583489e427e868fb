package metrics

import (
	"sync"
	"sync/atomic"
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

// histogram counts durations. Locks in memory are often held for a very short time. So a duration
// in the first bucket costs only one atomic addition, to shortTimes. Before shortTimes overflows,
// drain moves its contents to the other fields. The zero histogram is empty. Its methods are safe
// for concurrent use.
type histogram struct {
	shortTimes atomic.Uint64 // count * shortOne + sum in nanoseconds

	mu      sync.Mutex // guards the fields below
	buckets buckets
	sum     time.Duration
}

// shortTimes has two parts. The upper 20 bits are the number of short durations. The
// lower 44 bits are their sum in nanoseconds. A short duration is at most a millisecond, which is
// less than 2^20 ns. So the sum of 2^20 short durations fits in 40 bits.
//
// When shortTimes reaches shortMost, half of its range is used, and add calls drain. The other half
// is for durations that other goroutines add until drain is done.
const (
	shortOne  = 1 << 44
	shortMost = 1 << 63
)

// add counts a duration. The compiler inlines it.
func (h *histogram) add(d time.Duration) {
	if uint64(d) > uint64(time.Millisecond) || h.shortTimes.Add(shortOne+uint64(d)) >= shortMost {
		h.addSlowly(d)
	}
}

// addSlowly is called by add for a duration that does not belong to the first bucket, and when
// drain must be called.
func (h *histogram) addSlowly(d time.Duration) {
	if uint64(d) <= uint64(time.Millisecond) {
		h.drain()
		return
	}
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.mu.Lock()
	h.buckets[i]++
	h.sum += d
	h.mu.Unlock()
}

// drain moves the count and the sum in shortTimes to the other fields. It returns the number of
// durations in each bucket, and the sum of all durations.
func (h *histogram) drain() (b buckets, sum time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.shortTimes.Swap(0)
	h.buckets[0] += v / shortOne
	h.sum += time.Duration(v % shortOne)
	return h.buckets, h.sum
}
