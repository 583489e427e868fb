//go:build unix

package job

import (
	"sync"
	"syscall"
)

// platform is the part of a Job that one system needs.
type platform struct {
	taken bool // over, from another process that was the command's parent

	mu     sync.Mutex
	reaped bool // the command was waited for: its number may be another's now

	heard func(pid int) // if not nil, called for each signal; for tests
}

// signal sends a signal to a process, or to a group by its negative number. It is no error if the
// receiver is gone.
func (j *Job) signal(pid int, sig syscall.Signal) {
	if j.heard != nil {
		j.heard(pid)
	}
	_ = syscall.Kill(pid, sig)
}

// signalUnreaped sends a signal to the command, or to its group, as long as no other process can
// have its number.
func (j *Job) signalUnreaped(pid int, sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.reaped {
		j.signal(pid, sig)
	}
}

// tell sends sig and then a signal that wakes, because a stopped process does not handle sig.
func (j *Job) tell(pid int, sig syscall.Signal) {
	j.signal(pid, sig)
	j.signal(pid, syscall.SIGCONT)
}

// ended reports whether pid is the command and its status is final.
func (j *Job) ended(pid int, status syscall.WaitStatus) bool {
	return pid == j.pid && pid > 0 && !status.Stopped()
}

// groupRest returns the command's process group, as its negative number, while a process is in it.
func (j *Job) groupRest() []int {
	if j.pid == 0 || syscall.Kill(-j.pid, 0) == syscall.ESRCH {
		return nil
	}
	return []int{-j.pid}
}
