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
// in the first bucket costs only one atomic addition. The field named short has the number and the
// sum of the latest of these durations. Before the number or the sum overflows, the method read
// moves both to the other fields.
type histogram struct {
	short atomic.Uint64 // shortOne times the number, plus the sum in nanoseconds

	mu      sync.Mutex // guards the fields below
	buckets buckets
	sum     time.Duration
}

// In the field named short, the number has 20 bits and the sum has 44. Each duration has at most 20
// bits, so the number overflows first. The number is moved when it has reached half of its range,
// so that goroutines that add durations at the same time do not make it overflow.
const (
	shortOne  = 1 << 44
	shortMost = 1 << 63
)

func (h *histogram) add(d time.Duration) {
	if uint64(d) > uint64(time.Millisecond) {
		h.addLong(d)
	} else if h.short.Add(shortOne+uint64(d)) >= shortMost {
		h.read()
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

// read moves the short durations to the other fields, and returns all durations so far.
func (h *histogram) read() (b buckets, sum time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.short.Swap(0)
	h.buckets[0] += v / shortOne
	h.sum += time.Duration(v % shortOne)
	return h.buckets, h.sum
}
