package rig

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/padlock-go/padlock/internal/seccomp"
)

// failReads makes pread(2) of this process fail with EIO while a file exists. Package filestore
// reads its files by this system call, and connections do not use it. A filter for system calls
// (seccomp) asks a thread of this process about each such call, until the process ends.
func failReads(whileExists string) error {
	// The race detector reads 64 bytes at a time, in a thread for which the answering one waits.
	// No read of filestore has that size.
	const ofDetector = 64
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	listener, err := seccomp.Set(seccomp.AllThreads|seccomp.NewListener,
		seccomp.Load(seccomp.Number), seccomp.Equal(syscall.SYS_PREAD64, 0, 3),
		seccomp.Load(seccomp.Argument(2)), seccomp.Equal(ofDetector, 1, 0),
		seccomp.Ask(), seccomp.Allow())
	if err != nil {
		return err
	}
	filters <- filter{listener, whileExists}
	return nil
}

type filter struct {
	listener    uintptr
	whileExists string
}

var filters = make(chan filter)

// The goroutine must not count as one that a store leaves behind (I7), so it runs from the start.
func init() { go answerReads() }

// answerReads answers the questions of the filter. The structures and numbers are those of the
// kernel's include/uapi/linux/seccomp.h.
func answerReads() {
	f := <-filters
	const receive, send = 0xc0502100, 0xc0182101
	const goOn = 1
	for {
		var question struct {
			id   uint64
			rest [72]byte
		}
		var answer struct {
			id    uint64
			value int64
			err   int32
			flags uint32
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.listener, receive, uintptr(unsafe.Pointer(&question))); errno != 0 {
			continue // EINTR, or the thread that asks has ended
		}
		answer.id, answer.flags = question.id, goOn
		if _, err := os.Stat(f.whileExists); err == nil {
			answer.err, answer.flags = -int32(syscall.EIO), 0
		}
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, f.listener, send, uintptr(unsafe.Pointer(&answer)))
	}
}
