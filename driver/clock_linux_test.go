package driver

import (
	"testing"
	"time"
)

func TestBootClockAgreesWithTheSystem(t *testing.T) {
	c := bootClock{}
	for range 1000 {
		before := readBoottime()
		now := time.Duration(c.Now())
		after := readBoottime()
		if now < before-time.Millisecond || now > after+time.Millisecond {
			t.Fatalf("bootClock says %v, CLOCK_BOOTTIME went from %v to %v", now, before, after)
		}
	}
}

// A suspend cannot be made here; what it does to the clocks can: it moves the wall clock and
// CLOCK_BOOTTIME against the monotonic clock by one amount.
func TestBootClockNoticesASuspend(t *testing.T) {
	c := bootClock{}
	c.Now()
	o := *lastOffsets.Load()
	o.wall -= time.Hour
	o.boot -= time.Hour // as it was before an hour's suspend
	lastOffsets.Store(&o)
	before := readBoottime()
	if now := time.Duration(c.Now()); now < before-time.Millisecond {
		t.Fatalf("after a suspend the clock is %v behind CLOCK_BOOTTIME", before-now)
	}
}
