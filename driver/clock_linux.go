package driver

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// bootClock is CLOCK_BOOTTIME, which goes on while the machine is suspended. Go's timers stand
// still while the machine is suspended, so Nap limits the length of a timer.
//
// Reading CLOCK_BOOTTIME is a system call, about five times as expensive as time.Now. So bootClock
// normally adds an offset to Go's monotonic clock. That clock stands still during a suspend, but
// the wall clock moves on. So bootClock compares the two clocks at every call. If their difference
// has changed by more than maxDrift, bootClock reads CLOCK_BOOTTIME again.
//
// Somebody who sets the wall clock back after a suspend can hide the suspend, but only by setting
// the clock back by exactly as long as the suspend lasted (to within maxDrift).
type bootClock struct{}

// maxDrift is how much the difference between wall clock and monotonic clock may change before
// CLOCK_BOOTTIME is read again. NTP adjusts the wall clock by up to 500 µs a second.
const maxDrift = 100 * time.Microsecond

var monoBase = time.Now()

// offsets are the differences between clocks at the last reading of CLOCK_BOOTTIME.
type offsets struct {
	wall time.Duration // wall clock - monotonic clock
	boot time.Duration // CLOCK_BOOTTIME - monotonic clock
}

var lastOffsets atomic.Pointer[offsets]

func machineClock() Clock { return bootClock{} }

func (bootClock) Now() Instant {
	t := time.Now()
	mono, wall := t.Sub(monoBase), time.Duration(t.UnixNano())
	if o := lastOffsets.Load(); o != nil {
		if d := wall - mono - o.wall; -maxDrift < d && d < maxDrift {
			return Instant(mono + o.boot)
		}
	}
	o := measureOffsets()
	lastOffsets.Store(&o)
	return Instant(time.Since(monoBase) + o.boot)
}

// measureOffsets reads CLOCK_BOOTTIME between two readings of the monotonic clock. If this thread
// was interrupted between them, it reads again.
func measureOffsets() (best offsets) {
	spread := time.Duration(-1)
	for range 5 {
		before := time.Since(monoBase)
		boot := readBoottime()
		t := time.Now()
		after := t.Sub(monoBase)
		if s := after - before; spread < 0 || s < spread {
			spread, best = s, offsets{wall: time.Duration(t.UnixNano()) - after, boot: boot - after}
		}
		if spread < 20*time.Microsecond {
			break
		}
	}
	return best
}

func readBoottime() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	// This system call cannot block, so it can bypass the scheduler (RawSyscall), which is faster.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("driver: CLOCK_BOOTTIME cannot be read: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}

func (bootClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (bootClock) Nap() time.Duration { return 500 * time.Millisecond }
