package measure

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// Usage is what this process has used up so far.
type Usage struct {
	CPU      time.Duration // user and system
	Switches int64         // voluntary context switches of all its threads
}

// Used reads the present Usage. It panics if the system does not tell, which
// it always does.
func Used() Usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return Usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), r.Nvcsw}
}

// Memory is what the heap and the stacks of goroutines hold now, in bytes,
// after the garbage is gone.
func Memory() (heap, stacks float64) {
	runtime.GC()
	runtime.GC() // what had finalizers goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// Allocations is how many objects were ever allocated.
func Allocations() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}
