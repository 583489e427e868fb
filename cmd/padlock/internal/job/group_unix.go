//go:build unix

package job

import (
	"sync"
	"syscall"
)

// platform is the part of a Job that depends on the system.
type platform struct {
	taken bool // the job was taken over from another process, which was the command's parent

	mu     sync.Mutex
	reaped bool             // the command was reaped, so its number may belong to another process
	unsent []syscall.Signal // signals for the command that came before it had a process

	heard func(pid int) // if not nil, called for each signal, for tests
}

// signal sends a signal to a process, or to a process group if the number is negative. If the
// receiver does not exist any more, nothing happens.
func (j *Job) signal(pid int, sig syscall.Signal) {
	if j.heard != nil {
		j.heard(pid)
	}
	_ = syscall.Kill(pid, sig)
}

// signalAwake sends sig and then a signal that wakes the process, because a stopped process does
// not handle sig.
func (j *Job) signalAwake(pid int, sig syscall.Signal) {
	j.signal(pid, sig)
	j.signal(pid, syscall.SIGCONT)
}

// isFinal reports whether pid is the command and its status is final.
func (j *Job) isFinal(pid int, status syscall.WaitStatus) bool {
	return pid == j.Group() && pid > 0 && !status.Stopped()
}

// groupRest returns the negative number of the command's process group if any process of the group
// is left, and otherwise nil.
func (j *Job) groupRest() []int {
	group := j.Group()
	if group == 0 || syscall.Kill(-group, 0) == syscall.ESRCH {
		return nil
	}
	return []int{-group}
}
