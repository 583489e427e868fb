//go:build unix

package session_test

import (
	"syscall"
	"time"
)

// maxGrowth is how much longer eight times the keys may take. A good result is below 12, even with
// the race detector on a busy machine.
const maxGrowth = 24

// cpuTime returns how long this process has had a processor. Other processes do not change it.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
