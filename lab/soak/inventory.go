package soak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Inventory is the number of descriptors and goroutines of a process.
type Inventory struct {
	Descriptors int // 0 if the system does not report it
	Goroutines  int
	except      []string
}

// Count counts the descriptors and goroutines of this process. It leaves out each goroutine that
// runs a function whose name contains one of the given strings. Such goroutines belong to other
// packages or live as long as the process.
func Count(except ...string) Inventory {
	time.AfterFunc(time.Hour, func() {}).Stop() // the first timer opens descriptors that stay open
	names, _ := os.ReadDir("/proc/self/fd")     // empty without /proc
	return Inventory{Descriptors: len(names), Goroutines: goroutines(except), except: except}
}

func goroutines(except []string) (n int) {
	if len(except) == 0 {
		return runtime.NumGoroutine()
	}
	// Up to a hundred goroutines may start between the two calls.
	stacks := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	known, _ := runtime.GoroutineProfile(stacks)
	for i := range min(known, len(stacks)) {
		if !onStack(stacks[i].Stack(), except) {
			n++
		}
	}
	return n
}

// onStack reports whether one of the functions is on a stack.
func onStack(stack []uintptr, functions []string) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(frame.Function, f) }) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Beyond describes by how much n exceeds an earlier count. It compares the descriptors first and
// then the goroutines. It returns "" if n does not exceed that count.
func (n Inventory) Beyond(before Inventory) string {
	switch {
	case n.Descriptors > before.Descriptors:
		return fmt.Sprintf("%d descriptors are open, %d were before", n.Descriptors, before.Descriptors)
	case n.Goroutines > before.Goroutines:
		return fmt.Sprintf("%d goroutines run, %d did before", n.Goroutines, before.Goroutines)
	}
	return ""
}

// Settle counts again and again until the count does not exceed n, for at most ten seconds. It
// returns the last count.
func (n Inventory) Settle() Inventory {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := Count(n.except...); now.Beyond(n) == "" || time.Now().After(end) {
			return now
		}
	}
}
