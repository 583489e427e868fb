package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// refuse CALL COMMAND… runs a command under a filter for system calls (seccomp) that answers EPERM to
// one of them, as the filters of some containers do.
func refuse() {
	const (
		load, jumpIfEqual, result     = 0x20, 0x15, 0x06 // instructions of the filter
		offsetOfNumber, offsetOfFirst = 0, 16            // in struct seccomp_data
		allow, fail                   = 0x7fff0000, 0x00050000
		noNewPrivileges               = 38
	)
	type instruction struct {
		code     uint16
		yes, no  uint8
		argument uint32
	}
	arm := runtime.GOARCH == "arm64"
	numbers := map[string]uint32{"waitid": syscall.SYS_WAITID, "subreaper": syscall.SYS_PRCTL, "pidfd_open": 434, "pidfd_send_signal": 424, "statx": 332, "seccomp": 317}
	if arm {
		numbers["statx"], numbers["seccomp"] = 291, 277
	}
	filter := []instruction{{load, 0, 0, offsetOfNumber}, {jumpIfEqual, 0, 1, numbers[os.Args[1]]}}
	if os.Args[1] == "subreaper" { // prctl has many other uses
		const setChildSubreaper = 36
		filter[1].no = 3
		filter = append(filter, instruction{load, 0, 0, offsetOfFirst}, instruction{jumpIfEqual, 0, 1, setChildSubreaper})
	}
	filter = append(filter, instruction{result, 0, 0, fail | uint32(syscall.EPERM)}, instruction{result, 0, 0, allow})
	program := struct {
		length uint16
		filter unsafe.Pointer
	}{uint16(len(filter)), unsafe.Pointer(&filter[0])}
	runtime.LockOSThread()
	path, err := exec.LookPath(os.Args[2])
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); err == nil && errno != 0 {
		err = errno
	}
	if _, _, errno := syscall.Syscall(uintptr(numbers["seccomp"]), 1, 0, uintptr(unsafe.Pointer(&program))); err == nil && errno != 0 {
		err = errno
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "refuse:", err)
	os.Exit(99)
}
