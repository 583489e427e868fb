package padlock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// anyBatcher is a store that renews many leases with one request. The test does not call it.
type anyBatcher struct{ fast.BatchExtender }

// The planned time of a renewal stays within its bounds for every TTL and every offset, even if the
// store granted a lease shorter than the TTL. The order of the offsets is the order of the times.
func TestBoundsOfPlans(t *testing.T) {
	const tooFar = 1e-6 // the rounding of a third, as a part of it
	for _, c := range []struct {
		store           string
		batcher         fast.BatchExtender
		first, earliest float64 // planned time, and renewal, in thirds of the lease
	}{
		{"one request for many", anyBatcher{}, 1, 0.8},
		{"a request each", nil, 0.9, 0.9},
	} {
		for _, ttl := range []time.Duration{10 * time.Millisecond, driver.MinTTL, 30 * time.Second, driver.MaxTTL, math.MaxInt64} {
			for _, lease := range []time.Duration{ttl, ttl / 7} {
				l := &Locker{}
				l.renewer.l, l.renewer.batcher, l.renewer.random = l, c.batcher, rand.Float64
				h := &hold{locker: l, terms: terms{ttl: ttl}, renewals: renewals{index: -1}}
				early := l.renewer.renewEarlyBy(lease)
				before := driver.Instant(0)
				for _, offset := range []float64{0, 0.25, 0.5, 1} {
					l.renewer.offset = offset
					h.scheduleRenewal(1, driver.Grant{TTL: lease})
					after, third := float64(h.renewAt-1), float64(lease)/3
					what := fmt.Sprintf("%s, TTL %v, lease %v, offset %v", c.store, ttl, lease, offset)
					if after < third*(c.first-tooFar) || after > third*(1.1+tooFar) {
						t.Errorf("%s: planned after %v thirds", what, after/third)
					}
					if soonest := after - float64(early); soonest < third*(c.earliest-tooFar) {
						t.Errorf("%s: may be renewed after %v thirds", what, soonest/third)
					}
					if h.renewAt <= before {
						t.Errorf("%s: planned for %v, and for %v with a smaller offset", what, h.renewAt, before)
					}
					before = h.renewAt
				}
			}
		}
	}
}
