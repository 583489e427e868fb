package server

import (
	"os/exec"
	"runtime"
)

// starter is the thread that starts every server. The kernel sends the parent-death signal to a
// server when the thread that started it ends, even if the test's process still runs. The Go
// runtime may end any other thread at any time. The starter is locked to its goroutine and never
// ends.
var starter = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for job := range starter {
			job()
		}
	}()
}

// StartChild starts a program that cannot outlive this one, on Linux, even if it stands still after a
// SIGSTOP. Ctrl-C at the terminal does not signal it.
func StartChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes(nil)
	return begin(cmd)
}

// KillChild ends a program that StartChild has started, on Linux with all its descendants. The caller
// still has to wait for the program.
func KillChild(cmd *exec.Cmd) error { return (&process{cmd: cmd}).kill() }

// begin calls cmd.Start on the starter's thread.
func begin(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	starter <- func() { done <- cmd.Start() }
	return <-done
}

// A process is a server process. done is closed when the process has ended.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func launch(p Place, args []string) (*process, error) {
	cmd := exec.Command(p.Binary, args...)
	cmd.Dir, cmd.Env = p.Dir, p.env
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = attributes(p.owner)
	if err := begin(cmd); err != nil {
		return nil, err
	}
	proc := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(proc.done)
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
	return proc, nil
}

// hasEnded reports whether the process has ended. It does not wait.
func (p *process) hasEnded() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// state says whether the process runs, and otherwise how it has ended.
func (p *process) state() string {
	switch {
	case p == nil:
		return "was not started"
	case p.hasEnded():
		return "had ended (" + p.cmd.ProcessState.String() + ")"
	}
	return "was running"
}
