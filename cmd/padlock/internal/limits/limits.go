// Package limits keeps a program from being ended by Go's runtime when the limits
// of the system are reached. The runtime starts a thread when it needs one, and
// ends the program if it gets none; a thread that was started once stays and is
// used again. It needs some descriptors for itself, and ends the program without.
package limits

import (
	"errors"
	"runtime"
	"sync"
)

// ErrThreads says that the limit of processes and threads is reached.
var ErrThreads = errors.New("the limit of processes is reached (ulimit -u, pids.max, TasksMax)")

// processors bounds how many threads run Go code at once, and with it how many
// the runtime may ever want.
const processors = 2

// ErrDescriptors says that this process may not open more files.
var ErrDescriptors = errors.New("too few files may be open (ulimit -n)")

// KeepThreads starts n threads, and keeps them.
func KeepThreads(n int) error {
	runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	return start(n, nearLimit(n), runtime.UnlockOSThread)
}

// ProbeThreads shows that n more threads or processes can be started.
func ProbeThreads(n int) error {
	if !nearLimit(n) {
		return nil
	}
	return start(n, true, func() {}) // a thread ends with a goroutine that is locked to it
}

// start starts n threads that live at the same time, and has each do end. Where
// the limit is near each is tried first.
func start(n int, near bool, end func()) error {
	var running, ended sync.WaitGroup
	defer ended.Wait()
	over := make(chan struct{})
	defer close(over)
	for range n {
		if near && !roomForOne() {
			return ErrThreads
		}
		running.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			running.Done()
			<-over
			end()
		})
		if near {
			running.Wait()
		}
	}
	running.Wait()
	return nil
}
