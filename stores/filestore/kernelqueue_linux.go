//go:build !mips && !mipsle && !mips64 && !mips64le

package filestore

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A waiter stands in the kernel's own queue: a thread blocks in flock(2) for it. When the wait is
// over before the lock is granted, the store sends leaveSignal to that thread, and the system call
// ends. So no thread stays behind that could take the lock for an instant when nobody wants it.
//
//	state    event                                        next state
//	blocked  the kernel grants the lock, or refuses it    over
//	blocked  the wait is over                             leaving
//	leaving  the signal arrives in flock(2)               over, with EINTR
//	leaving  the signal arrives before flock(2)           leaving; leave sends the next one
//	leaving  the kernel grants the lock first             over, and leave gives the lock back
//	leaving  the program ignores the signal               left behind until the lock is granted
//
// A signal ends a system call only if its handler lacks the flag SA_RESTART. Go's handlers have it,
// so the store removes it from Go's handler for this one signal. The handler itself does nothing,
// unless the program has called signal.Notify for the signal.
const (
	leaveSignal = 63
	saRestart   = 0x10000000
	setSize     = 8 // of the kernel's sets of signals, in bytes

	// maxBlocked is how many threads of this process block at once. Further waiters poll, until
	// another one leaves its thread to them; see turn.
	maxBlocked = 64

	// The pauses of leave between two signals double.
	leavePause    = 50 * time.Microsecond
	maxLeavePause = 100 * time.Millisecond
)

const hasKernelQueue = true

var (
	blockedThreads atomic.Int32
	threadSought   atomic.Int64 // when a waiter last found no thread, in ns since 1970
)

// blocked is one thread that waits for a lock.
type blocked struct {
	leaving atomic.Bool
	over    chan error // has the result when the thread does not use the file any more

	mu     sync.Mutex
	thread int // 0 unless the thread is in flock(2), or just before or after it
}

// noThread reports whether a waiter must poll because too many threads block. Then one is sought.
func noThread() bool {
	none := blockedThreads.Load() >= maxBlocked
	if none {
		threadSought.Store(time.Now().UnixNano())
	}
	return none
}

// block makes a thread wait for the lock of c. It returns nil if the waiter must poll.
func block(c *conn, shared bool) *blocked {
	if blockedThreads.Add(1) > maxBlocked || !canLeave() {
		blockedThreads.Add(-1)
		threadSought.Store(time.Now().UnixNano())
		return nil
	}
	b := &blocked{over: make(chan error, 1)}
	go b.lock(c, shared)
	return b
}

func (b *blocked) lock(c *conn, shared bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowSignal()
	b.setThread(syscall.Gettid())
	err := syscall.Flock(c.fd, howToLock(shared))
	for err == syscall.EINTR && !b.leaving.Load() {
		err = syscall.Flock(c.fd, howToLock(shared))
	}
	b.setThread(0)
	syscall.Gettid() // a signal that was sent before thread became 0 arrives here at the latest
	blockedThreads.Add(-1)
	b.over <- err
}

func (b *blocked) setThread(id int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.thread = id
}

// leave ends the wait, and closes c.
func (b *blocked) leave(c *conn) {
	b.leaving.Store(true)
	for pause := leavePause; b.interrupt(); pause = min(2*pause, maxLeavePause) {
		select {
		case <-b.over:
			c.unlock()
			c.close()
			return
		case <-time.After(pause):
		}
	}
	go func() {
		<-b.over
		c.close()
	}()
}

// interrupt sends leaveSignal to the thread. It returns false if the program ignores the signal.
func (b *blocked) interrupt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !canLeave() {
		return false
	}
	if b.thread != 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(b.thread), leaveSignal)
	}
	return true
}

// allowSignal lets leaveSignal reach this thread, even if the program was started with that signal
// blocked.
func allowSignal() {
	const unblock = 1
	set := uint64(1) << (leaveSignal - 1)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unblock, uintptr(unsafe.Pointer(&set)), 0, setSize, 0, 0)
}

// sigaction is the kernel's struct sigaction, as far as all of these processors agree.
type sigaction struct {
	handler, flags uintptr
	_              [6]uintptr
}

// canLeave makes sure that leaveSignal ends a system call. It returns false if the program has no
// handler for the signal: the signal would do nothing, or end the process.
func canLeave() bool {
	var act sigaction
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, leaveSignal, 0, uintptr(unsafe.Pointer(&act)), setSize, 0, 0)
	const defaultHandler, ignored = 0, 1
	if errno != 0 || act.handler == defaultHandler || act.handler == ignored {
		return false
	}
	if act.flags&saRestart == 0 {
		return true
	}
	act.flags &^= saRestart
	_, _, errno = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, leaveSignal, uintptr(unsafe.Pointer(&act)), 0, setSize, 0, 0)
	return errno == 0
}
