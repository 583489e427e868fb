// Package limits starts the threads of padlock before the command. If a command uses up the
// processes of its user, the runtime of Go would crash padlock when it needs one more thread.
// Threads that were started once stay and are used again.
package limits

import (
	"runtime"
	"sync"
)

// processors is how many threads run Go code at the same time. That also bounds how many threads the
// runtime needs. With one, nothing would run while a program is being executed: see vfork(2).
const processors = 2

// spare is the number of threads that the runtime may start for itself.
const spare = 4

// FewThreads bounds the number of threads that the runtime needs.
func FewThreads() { runtime.GOMAXPROCS(processors) }

// KeepThreads starts n threads and some for the runtime. They stay. If the system does not allow
// that many, the runtime ends this process.
func KeepThreads(n int) {
	var running, ended sync.WaitGroup
	over := make(chan struct{})
	for range n + spare {
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
}
