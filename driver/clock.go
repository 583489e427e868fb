package driver

import "time"

// Instant is a time on a process's own clock, in nanoseconds. Zero means "none".
type Instant int64

// Add returns i + d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock measures leases. It is never set, and is safe for concurrent use. It counts the time of a
// suspend, if the system can tell.
type Clock interface {
	Now() Instant // the time

	// AfterFunc is like time.AfterFunc, but f may be called late, and must check Now.
	AfterFunc(d time.Duration, f func()) (stop func() bool)

	// Nap is the longest d for AfterFunc, or 0: a longer timer may be late after a suspend.
	Nap() time.Duration
}

// SystemClock returns the clock of this machine or testing/synctest bubble.
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
