package metrics

import (
	"testing"
	"time"
)

// More durations of the first bucket than one word has room for.
func TestManyShortDurations(t *testing.T) {
	const many = 1<<20 + 5
	var h histogram
	for range many {
		h.add(time.Millisecond)
	}
	h.add(2 * time.Millisecond)
	n, sum := h.drain()
	if n[0] != many || n[1] != 1 || sum != many*time.Millisecond+2*time.Millisecond {
		t.Errorf("the buckets have %d and %d durations, the sum is %v", n[0], n[1], sum)
	}
}
