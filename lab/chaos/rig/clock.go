package rig

import (
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
)

const clockSetBack = "clock set back"

// clockFaults returns the faults that set the clocks of all servers: forward by up to 10 s, or back
// by up to 2 s. There are no such faults without a C compiler for the clock.
func (s *Site) clockFaults() []soak.Fault {
	if s.clock == nil {
		return nil
	}
	return setClock(func(by time.Duration) { must(s.clock.Add(by)) })
}

// setClock makes the two faults from a function that adds a time to a clock. Both have the same
// target, so the function is never called twice at once.
func setClock(add func(by time.Duration)) []soak.Fault {
	fault := func(kind string, by func(*rand.Rand) time.Duration) soak.Fault {
		return soak.Fault{Kind: kind, On: soak.Targets("clock", 1), Grace: 4 * time.Second, Weight: 2, Begin: begin(func(d *rand.Rand, _ int) func() {
			add(by(d))
			return nil
		})}
	}
	// A clock that is set back makes leases of dead holders and cool-downs longer by as much. Several
	// such faults must not add more than the grace, so the clock goes back by 3 s in about 10 s at most.
	const most = 3 * time.Second
	left, last := most, time.Now()
	back := func(d *rand.Rand) time.Duration {
		left, last = min(most, left+time.Since(last)*3/10), time.Now()
		by := min(left, time.Duration(1+d.Int64N(int64(2*time.Second))))
		left -= by
		return -by
	}
	return []soak.Fault{
		fault("clock jump", func(d *rand.Rand) time.Duration { return time.Second * time.Duration(1+d.IntN(10)) }),
		fault(clockSetBack, back),
	}
}
