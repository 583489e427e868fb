package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/padlock-go/padlock/internal/seccomp"
)

// refuse CALL COMMAND… runs a command under a filter for system calls (seccomp) that answers EPERM to
// one of them, as the filters of some containers do.
func refuse() {
	numbers := map[string]uint32{"waitid": syscall.SYS_WAITID, "subreaper": syscall.SYS_PRCTL, "pidfd_open": 434, "pidfd_send_signal": 424, "statx": 332}
	if runtime.GOARCH == "arm64" {
		numbers["statx"] = 291
	}
	filter := []seccomp.Instruction{seccomp.Load(seccomp.Number), seccomp.Equal(numbers[os.Args[1]], 0, 1)}
	if os.Args[1] == "subreaper" { // prctl has many other uses
		const setChildSubreaper = 36
		filter = []seccomp.Instruction{
			seccomp.Load(seccomp.Number), seccomp.Equal(syscall.SYS_PRCTL, 0, 3),
			seccomp.Load(seccomp.Argument(0)), seccomp.Equal(setChildSubreaper, 0, 1),
		}
	}
	runtime.LockOSThread()
	path, err := exec.LookPath(os.Args[2])
	if err == nil {
		_, err = seccomp.Set(0, append(filter, seccomp.Fail(syscall.EPERM), seccomp.Allow())...)
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "refuse:", err)
	os.Exit(99)
}
