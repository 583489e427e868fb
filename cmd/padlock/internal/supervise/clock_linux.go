package supervise

import (
	"syscall"
	"time"
	"unsafe"
)

// moment is a point in time on CLOCK_BOOTTIME. All processes of a machine share that clock, and it
// keeps running while the machine is suspended.
type moment struct{ Boot time.Duration }

func now() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// momentAfter adds a duration to the current time. For the duration Forever, it returns nil.
func momentAfter(left time.Duration) *moment {
	if left == Forever {
		return nil
	}
	return &moment{now() + left}
}

// arrived is called when this process has received m in a message. On Linux it does nothing: m is a
// time on a clock that all processes share.
func (*moment) arrived() {}

func (m *moment) left() time.Duration { return m.Boot - now() }
