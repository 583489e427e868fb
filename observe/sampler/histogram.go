package sampler

import (
	"math"
	"time"
)

// A histogram has buckets of fixed relative width: four for each doubling, from 16 ms to 12 days.
// So a percentile is at most a fifth greater than the true value, if that value is above 16 ms. A
// name needs 440 bytes, however many holds it had.
const (
	perDoubling = 4
	buckets     = 26*perDoubling + 1
	shortest    = 16 * time.Millisecond
)

type histogram struct {
	count [buckets]uint32
	sum   uint64 // the sum of all elements of count
	most  time.Duration
}

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > shortest {
		i = min(buckets-1, int(math.Ceil(perDoubling*math.Log2(float64(d)/float64(shortest)))))
	}
	h.count[i]++
	h.sum++
	h.most = max(h.most, d)
}

// percentile returns the percentile for p, which is between 0 and 1. If p is 0.95, at least 95 % of
// the recorded durations are not longer than the result. The result is the upper bound of a bucket,
// or the longest recorded duration if that is less.
func (h *histogram) percentile(p float64) time.Duration {
	rank := uint64(math.Ceil(p * float64(h.sum)))
	seen := uint64(0)
	for i, n := range h.count[:buckets-1] {
		if seen += uint64(n); seen >= rank {
			return min(h.most, time.Duration(float64(shortest)*math.Exp2(float64(i)/perDoubling)))
		}
	}
	return h.most
}

// times describes h, which may be nil.
func (h *histogram) times() Times {
	if h == nil || h.sum == 0 {
		return Times{}
	}
	return Times{h.sum, h.percentile(.5), h.percentile(.95), h.percentile(.99), h.most}
}
