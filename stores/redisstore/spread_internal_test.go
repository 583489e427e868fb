package redisstore

import (
	"testing"
	"time"
)

// Processes that lost their connections at the same instant must not connect again together.
func TestSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := spread(time.Second)
		if d < time.Second/2 || d >= 3*time.Second/2 {
			t.Fatalf("%v is not between half a second and one and a half", d)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("%d different pauses of 1,000", len(seen))
	}
}
