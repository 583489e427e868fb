package measure

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// Used returns the processor time of this process so far. It panics if the system does not report it.
func Used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Memory returns the size of the heap and of the stacks of goroutines in bytes, after a garbage
// collection.
func Memory() (heap, stacks float64) {
	runtime.GC()
	runtime.GC() // objects with finalizers are freed by the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// Allocations returns how many objects have been allocated since the start.
func Allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
