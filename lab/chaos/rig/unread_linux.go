package rig

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// failReads makes pread(2) of this process fail with EIO while a file exists. Package filestore
// reads its files by this system call, and connections do not use it. A filter for system calls
// (seccomp) asks a thread of this process about each such call, until the process ends.
func failReads(whileExists string) error {
	const (
		load, jumpIfEqual, result = 0x20, 0x15, 0x06 // instructions of the filter
		allow, ask                = 0x7fff0000, 0x7fc00000
		noNewPrivileges           = 38
		setFilter                 = 1
		allThreads, newListener   = 1 | 1<<4, 1 << 3 // with 1<<4, an error is not told by the number of a thread

		// The race detector reads 64 bytes at a time, in a thread for which the answering one waits.
		// No read of filestore has that size.
		thirdArgument, ofDetector = 32, 64
	)
	sysSeccomp := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	code := []struct {
		code     uint16
		yes, no  uint8
		argument uint32
	}{{load, 0, 0, 0}, {jumpIfEqual, 0, 3, syscall.SYS_PREAD64}, {load, 0, 0, thirdArgument}, {jumpIfEqual, 1, 0, ofDetector}, {result, 0, 0, ask}, {result, 0, 0, allow}}
	program := struct {
		length uint16
		code   unsafe.Pointer
	}{uint16(len(code)), unsafe.Pointer(&code[0])}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	listener, _, errno := syscall.Syscall(sysSeccomp, setFilter, allThreads|newListener, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
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
