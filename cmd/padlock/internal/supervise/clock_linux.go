package supervise

import (
	"syscall"
	"time"
	"unsafe"
)

// moment is a point in time that another process understands and that counts suspends:
// CLOCK_BOOTTIME.
type moment struct{ Boot time.Duration }

func now() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// until is the moment after left, or nil for never.
func until(left time.Duration) *moment {
	if left == Forever {
		return nil
	}
	return &moment{now() + left}
}

// arrived notes that the moment was received.
func (*moment) arrived() {}

func (m *moment) left() time.Duration { return m.Boot - now() }
