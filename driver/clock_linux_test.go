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

// A test cannot suspend the machine, but it can imitate the effect on the clocks. A suspend moves
// the wall clock and CLOCK_BOOTTIME against the monotonic clock, both by the same amount.
func TestBootClockNoticesASuspend(t *testing.T) {
	c := bootClock{}
	c.Now()
	o := *lastOffsets.Load()
	o.wall -= time.Hour
	o.boot -= time.Hour // the offsets from before a suspend of one hour
	lastOffsets.Store(&o)
	before := readBoottime()
	if now := time.Duration(c.Now()); now < before-time.Millisecond {
		t.Fatalf("after a suspend the clock is %v behind CLOCK_BOOTTIME", before-now)
	}
}
