//go:build unix

package job

import (
	"sync"
	"syscall"
)

// platform is what a Job needs on one system only.
type platform struct {
	taken bool // over, from another process that was the command's parent

	mu     sync.Mutex
	reaped bool // the command was waited for: its number may be another's now

	heard func(pid int) // if not nil, a test hears of all signals
}

// signal sends to a process, or to a group by its negative number. That it is
// gone already is what the caller wants.
func (j *Job) signal(pid int, sig syscall.Signal) {
	if j.heard != nil {
		j.heard(pid)
	}
	_ = syscall.Kill(pid, sig)
}

// signalUnreaped sends to the command, or to its group, as long as the number
// is certain to be the command's.
func (j *Job) signalUnreaped(pid int, sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.reaped {
		j.signal(pid, sig)
	}
}

// tell sends sig and wakes: a stopped process does not hear it.
func (j *Job) tell(pid int, sig syscall.Signal) {
	j.signal(pid, sig)
	j.signal(pid, syscall.SIGCONT)
}

// ended reports whether pid is the command and the status its last.
func (j *Job) ended(pid int, status syscall.WaitStatus) bool {
	return pid == j.pid && pid > 0 && !status.Stopped()
}

// groupRest names the command's process group, by its negative number, while
// anybody is in it.
func (j *Job) groupRest() []int {
	if j.pid == 0 || syscall.Kill(-j.pid, 0) == syscall.ESRCH {
		return nil
	}
	return []int{-j.pid}
}
