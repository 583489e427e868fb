// Package limits keeps Go's runtime from crashing when padlock reaches a limit of the system. The
// runtime starts threads when it needs them, and crashes if it cannot start one. It also needs some
// descriptors for itself. Threads that were started once stay and are used again.
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

// processors bounds how many threads run Go code at the same time. That also bounds how many
// threads the runtime needs.
const processors = 2

// spare is the number of threads that the runtime may start for itself.
const spare = 4

// Prepare bounds the number of threads that the runtime needs, and checks that n more threads or
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

// KeepThreads starts n threads, which stay.
func KeepThreads(n int) error {
	if err := Room(n); err != nil {
		return err
	}
	var running, ended sync.WaitGroup
	over := make(chan struct{})
	for range n {
		running.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // so that each goroutine has its own thread
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
