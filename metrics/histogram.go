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

// histogram counts durations. Locks in memory are often held for a very short time, so a duration
// in the first bucket costs only one atomic addition, to shortTimes. This field has the count of
// such durations in its upper bits and their sum in its lower bits. Before one of them overflows,
// drain moves both to the other fields.
type histogram struct {
	shortTimes atomic.Uint64 // count * shortOne + sum in nanoseconds

	mu      sync.Mutex // guards the fields below
	buckets buckets
	sum     time.Duration
}

// The field histogram.shortTimes has a count of durations in its upper 20 bits and their sum, in
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

func (h *histogram) add(d time.Duration) {
	if uint64(d) > uint64(time.Millisecond) {
		h.addLong(d)
	} else if h.shortTimes.Add(shortOne+uint64(d)) >= shortMost {
		h.drain()
	}
}

// addLong adds a duration that does not belong to the first bucket.
func (h *histogram) addLong(d time.Duration) {
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
