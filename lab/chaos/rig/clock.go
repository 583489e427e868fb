package rig

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/soak"
)

const clockSetBack = "clock set back"

// clockFaults returns the faults that set the clocks of all servers: forward by up to 10 s, or back
// by up to a quarter of a second. A clock that is set back makes leases and cool-downs longer by as
// much, and several such faults together must add less than the grace. There are no such faults
// without a C compiler for the clock shim.
func (s *Site) clockFaults() []soak.Fault {
	if s.shim == "" {
		return nil
	}
	return setClock(func(by time.Duration) {
		file := got(os.OpenFile(s.shim, os.O_RDWR, 0))
		defer file.Close()
		var offset [8]byte
		got(file.ReadAt(offset[:], 0))
		binary.NativeEndian.PutUint64(offset[:], binary.NativeEndian.Uint64(offset[:])+uint64(by))
		got(file.WriteAt(offset[:], 0))
	})
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
	return []soak.Fault{
		fault("clock jump", func(d *rand.Rand) time.Duration { return time.Second * time.Duration(1+d.IntN(10)) }),
		fault(clockSetBack, func(d *rand.Rand) time.Duration { return -time.Duration(1 + d.Int64N(int64(time.Second/4))) }),
	}
}
