package memcachestore

import (
	"math"
	"testing"
	"time"
)

// A value outlives its lease, whenever it is written. The server's looks at its clock are a
// millisecond late each, so now and then it counts two seconds at once.
func TestValuesOutliveTheirLeases(t *testing.T) {
	const pause, looks = 1.001, 1500 // seconds
	for _, start := range []float64{0.0005, 0.3} {
		count := func(look int) int { return int(math.Floor(start + float64(look)*pause)) }
		for look := range looks {
			for _, after := range []float64{0, 0.5, 0.999} { // from the look to the write
				written := start + float64(look)*pause + after
				for _, ttl := range []time.Duration{minTTL, 2500 * time.Millisecond} {
					end := count(look) + lifeFor(ttl)
					dropped := look
					for count(dropped) < end {
						dropped++
					}
					if lived := start + float64(dropped)*pause - written; lived < ttl.Seconds() {
						t.Fatalf("a lease of %v, written %.3f s after look %d, lived for %.3f s", ttl, after, look, lived)
					}
				}
			}
		}
	}
}
