package driver

import "time"

// Instant is a point in time on a process's own clock, in nanoseconds. It means nothing to another
// process, or after a reboot. The zero Instant means "none".
type Instant int64

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock measures leases. It never steps, and it counts the time while the machine was suspended if
// the system can tell. It is safe for concurrent use.
type Clock interface {
	// Now returns the present instant. It costs about as much as time.Now.
	Now() Instant

	// AfterFunc calls f in its own goroutine when d has passed, unless stop is called before. stop
	// reports whether it prevented the call. The call may come late, after a suspend for example,
	// so f checks Now.
	AfterFunc(d time.Duration, f func()) (stop func() bool)

	// Nap returns the longest d for AfterFunc with which a caller still notices in time that the
	// machine was suspended; 0 means that any d will do.
	Nap() time.Duration
}

// SystemClock returns the clock of this machine: CLOCK_BOOTTIME on Linux, time.Now elsewhere.
// Called inside a testing/synctest bubble it is the bubble's clock. All clocks that SystemClock
// returns agree with each other.
func SystemClock() Clock {
	if now := time.Now(); now == now.Round(0) {
		// No monotonic reading: only a bubble's times lack it. A bubble's wall clock never steps,
		// so it will do.
		return goClock{time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	return machineClock()
}

// goClock is Go's own clock. Its monotonic reading stands still while the machine is suspended.
type goClock struct{ base time.Time }

func (c goClock) Now() Instant { return Instant(time.Since(c.base)) + 1 }

func (goClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (goClock) Nap() time.Duration { return 0 }
