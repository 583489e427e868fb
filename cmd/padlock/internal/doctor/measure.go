package doctor

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
)

// clock is a series of readings of the server's clock. Each reading is compared with the monotonic
// clock of this machine. Processes that hold locks use the monotonic clock to find out when their
// leases end.
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

// To measure the server's clock, doctor takes maxLocks locks, one after the other. If the store is
// slow, doctor takes fewer locks: it stops after measureTime, but not before it has taken minLocks
// locks.
const (
	maxLocks    = 10
	minLocks    = 2
	measureTime = 3 * time.Second
)

// cycle takes and releases a lock a few times, and records the fences, which show the server's
// clock.
func (v *visit) cycle(ctx context.Context, l *padlock.Locker, c *clock) error {
	begin := time.Now()
	for i := range maxLocks {
		if i >= minLocks && time.Since(begin) > measureTime {
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
