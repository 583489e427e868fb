package doctor

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
)

// clock is a series of readings of the server's clock. The readings are compared with the monotonic
// clock of this machine. Processes that hold locks use that clock to find out when their leases
// end.
type clock struct {
	base  time.Time // local times are relative to base
	seen  []reading
	trips []time.Duration
}

// reading is the fence of one lock, with the local times before and after the lock was taken.
type reading struct {
	sent, got time.Duration
	fence     uint64
}

func (r reading) trip() time.Duration { return r.got - r.sent }

// server returns the server's time since 1970.
func (r reading) server() time.Duration { return time.Duration(r.fence) * time.Microsecond }

func (c *clock) saw(sent, got time.Duration, fence uint64) {
	c.seen = append(c.seen, reading{sent, got, fence})
	c.trips = append(c.trips, got-sent)
}

// To measure the server's clock, doctor takes several locks, one after the other. The number of
// these locks is looks. If the store is slow, doctor takes fewer locks: it stops when lookAbout has
// passed, but not before it has taken fewLooks locks.
const (
	looks     = 10
	fewLooks  = 2
	lookAbout = 3 * time.Second
)

// cycle takes and releases a lock a few times, and records the fences, which show the server's
// clock.
func (v *visit) cycle(ctx context.Context, l *padlock.Locker, c *clock) error {
	begin := time.Now()
	for i := range looks {
		if i >= fewLooks && time.Since(begin) > lookAbout {
			return nil
		}
		sent := time.Since(c.base)
		lock, err := l.Acquire(ctx, v.Name, padlock.Wait(5*time.Second), padlock.Label("padlock doctor"), padlock.NoRenewal())
		if err != nil {
			return err
		}
		c.saw(sent, time.Since(c.base), lock.Fence())
		if err := lock.Release(); err != nil {
			return err
		}
	}
	return nil
}

// tidy rounds a duration to three digits.
func tidy(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit)
		}
	}
}
