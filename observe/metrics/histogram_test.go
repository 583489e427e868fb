package metrics

import (
	"testing"
	"time"
)

// A duration belongs to the first bucket whose bound it does not exceed.
func TestBuckets(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Hour, time.Hour + 1} {
		h.add(d)
	}
	n, sum := h.read()
	if n[0] != 2 || n[1] != 1 || n[len(bounds)-1] != 1 || n[len(bounds)] != 1 || sum != 2*time.Hour+2*time.Millisecond+2 {
		t.Errorf("the buckets have %d, the sum is %v", n, sum)
	}
}
