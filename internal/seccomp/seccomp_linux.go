// Package seccomp sets filters for system calls, by which tests make calls fail that a server cannot
// make fail. Its numbers are those of the kernel's include/uapi/linux/seccomp.h and filter.h.
package seccomp

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Number and Argument are offsets in struct seccomp_data, on a machine that is little-endian.
const Number = 0

// Argument returns the offset of the lower half of argument i, which begins with 0.
func Argument(i uint32) uint32 { return 16 + 8*i }

// An Instruction is one of a filter. Yes and No say how many instructions a jump leaves out.
type Instruction struct {
	code    uint16
	yes, no uint8
	operand uint32
}

// Load loads what is at an offset of struct seccomp_data.
func Load(offset uint32) Instruction { return Instruction{0x20, 0, 0, offset} }

// Equal jumps over yes instructions if the loaded value is value, otherwise over no instructions.
func Equal(value uint32, yes, no uint8) Instruction { return Instruction{0x15, yes, no, value} }

// Allow lets the call through, Fail answers with an error, and Ask asks the listener.
func Allow() Instruction                  { return Instruction{6, 0, 0, 0x7fff0000} }
func Fail(with syscall.Errno) Instruction { return Instruction{6, 0, 0, 0x50000 | uint32(with)} }
func Ask() Instruction                    { return Instruction{6, 0, 0, 0x7fc00000} }

// Flags of Set. With NewListener, Set returns the descriptor of a listener.
const (
	AllThreads  = 1 | 1<<4 // an error is not told by the number of a thread
	NewListener = 1 << 3
)

// Set gives a filter to this thread, or to the whole process, and to the programs that it starts.
// The caller locks its goroutine to its thread.
func Set(flags uintptr, filter ...Instruction) (listener uintptr, err error) {
	const noNewPrivileges, setFilter = 38, 1
	program := struct {
		length uint16
		filter unsafe.Pointer
	}{uint16(len(filter)), unsafe.Pointer(&filter[0])}
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return 0, errno
	}
	number := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	listener, _, errno := syscall.Syscall(number, setFilter, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, fmt.Errorf("seccomp: %w", errno)
	}
	return listener, nil
}
