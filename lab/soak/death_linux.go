package soak

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launcher is a thread that never ends. When the thread that started a child ends, the kernel
// treats the child's parent as dead. So this thread starts all children.
var launcher = sync.OnceValue(func() chan func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range jobs {
			f()
		}
	}()
	return jobs
})

// launch starts a worker. The kernel kills the worker when the engine's process ends, even if the
// worker stands still after a SIGSTOP.
func launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	launcher() <- func() { done <- cmd.Start() }
	return <-done
}
