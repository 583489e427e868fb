package driver

import "time"

// Instant is a point in time on a process's own clock, in nanoseconds. It has no meaning in another
// process, or after a reboot. The zero Instant means "none".
type Instant int64

// Add returns i + d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock measures leases. It is never set forward or back. It counts the time during which the
// machine was suspended, if the system can tell. It is safe for concurrent use.
type Clock interface {
	// Now returns the current instant. It costs about as much as time.Now.
	Now() Instant

	// AfterFunc calls f in its own goroutine when d has passed. The call may come late, for example
	// after a suspend, so f must check Now. The function stop is like the method Stop of a
	// time.Timer: it prevents the call of f, or returns false if it is too late for that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)

	// Nap returns the longest d that the caller should pass to AfterFunc, or 0 if there is no
	// limit. A timer with a longer d may fire too late if the machine was suspended meanwhile, so
	// the caller sets several shorter ones.
	Nap() time.Duration
}

// SystemClock returns the clock of this machine: CLOCK_BOOTTIME on Linux, time.Now elsewhere.
// Inside a testing/synctest bubble it returns the bubble's clock. All clocks that SystemClock
// returns agree with each other.
func SystemClock() Clock {
	if now := time.Now(); now == now.Round(0) {
		// In a bubble, time.Now has no monotonic reading. The wall clock of a bubble is never set,
		// so it can be used instead.
		return goClock{time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	return machineClock()
}

// goClock is Go's own clock. Its monotonic reading stands still while the machine is suspended.
type goClock struct{ base time.Time }

func (c goClock) Now() Instant { return Instant(time.Since(c.base)) + 1 }

func (goClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (goClock) Nap() time.Duration { return 0 }
