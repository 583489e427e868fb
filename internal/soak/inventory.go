package soak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Inventory is what a process has.
type Inventory struct {
	Descriptors int // 0 where they cannot be told
	Goroutines  int
	except      []string
}

// Count counts what this process has, but for goroutines in functions whose
// names contain one of except: those that others leave behind, or that stay as
// long as the process.
func Count(except ...string) Inventory {
	time.AfterFunc(time.Hour, func() {}).Stop() // the first timer opens descriptors that stay
	names, _ := os.ReadDir("/proc/self/fd")     // none where there is no /proc
	return Inventory{Descriptors: len(names), Goroutines: goroutines(except), except: except}
}

func goroutines(except []string) (n int) {
	if len(except) == 0 {
		return runtime.NumGoroutine()
	}
	stacks := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	known, _ := runtime.GoroutineProfile(stacks) // a hundred more do not come meanwhile
	for i := range min(known, len(stacks)) {
		if !within(stacks[i].Stack(), except) {
			n++
		}
	}
	return n
}

// within reports whether a stack has one of the functions.
func within(stack []uintptr, functions []string) bool {
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

// Beyond says what there is more than before, or "".
func (n Inventory) Beyond(before Inventory) string {
	switch {
	case n.Descriptors > before.Descriptors:
		return fmt.Sprintf("%d descriptors are open, %d were before", n.Descriptors, before.Descriptors)
	case n.Goroutines > before.Goroutines:
		return fmt.Sprintf("%d goroutines run, %d did before", n.Goroutines, before.Goroutines)
	}
	return ""
}

// Settle waits up to ten seconds for what is ending, until there is no more
// than n, and counts.
func (n Inventory) Settle() Inventory {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := Count(n.except...); now.Beyond(n) == "" || time.Now().After(end) {
			return now
		}
	}
}
