// Package limits protects a program from Go's runtime, which ends the program when the limits of
// the system are reached. The runtime starts a thread when it needs one, and ends the program if it
// gets none; a thread that was started once stays and is used again. It also needs some descriptors
// for itself.
package limits

import (
	"errors"
	"runtime"
	"sync"
)

// ErrThreads means that the limit of processes and threads is reached.
var ErrThreads = errors.New("the limit of processes is reached (ulimit -u, pids.max, TasksMax)")

// ErrDescriptors means that this process may not open more files.
var ErrDescriptors = errors.New("too few files may be open (ulimit -n)")

// processors bounds how many threads run Go code at once, and with it the number of threads that
// the runtime may ever want.
const processors = 2

// spare is the number of threads that the runtime may start for itself meanwhile.
const spare = 4

// Prepare bounds the number of threads that the runtime may want, and checks that n more threads or
// processes can be started.
func Prepare(n int) error {
	runtime.GOMAXPROCS(min(processors, runtime.GOMAXPROCS(0)))
	return Room(n)
}

// Room checks that n more threads or processes can be started.
func Room(n int) error {
	if !room(n + spare) {
		return ErrThreads
	}
	return nil
}

// KeepThreads starts n threads that stay.
func KeepThreads(n int) error {
	if err := Room(n); err != nil {
		return err
	}
	var running, ended sync.WaitGroup
	over := make(chan struct{})
	for range n {
		running.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // so that each has a thread of its own
			defer runtime.UnlockOSThread()
			running.Done()
			<-over
		})
	}
	running.Wait()
	close(over)
	ended.Wait()
	return nil
}
