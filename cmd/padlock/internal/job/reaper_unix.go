//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Reaper takes over a job when the process that started the job has died. That process is a child
// of this one.
type Reaper struct{ job *Job }

// NewReaper must be called before that process is started, so that this process inherits what that
// one leaves behind. leave is Leave in the job's Spec.
func NewReaper(leave bool) *Reaper {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Reaper{j}
}

// Rest lists the living descendants of this process. The process that started the job is one of
// them.
func (r *Reaper) Rest() []int { return r.job.Rest() }

// Group sets the command's process group. Without it, processes that can only be found through the
// group are not ended.
func (r *Reaper) Group(group int) { r.job.pid = group }

// TakeOver kills the remaining processes, and returns when none is left. The process that started
// the job was already reaped. ended says that the command had ended before that. Then another
// process may have its number, so its group is not signalled where it need not be: its leftover
// processes are children of this process, or are to be left alone.
func (r *Reaper) TakeOver(ended bool) {
	j := r.job
	j.killing.Store(true)
	close(j.done)
	if j.pid != 0 && (!ended || !j.adopts && !j.leave) {
		j.signal(-j.pid, kill)
	}
	if j.adopts {
		go j.wait()
	}
	j.EndRest(syscall.SIGKILL, nil)
	<-j.gone
}

// Without returns rest without the given pid.
func Without(rest []int, pid int) []int {
	return slices.DeleteFunc(rest, func(p int) bool { return p == pid })
}
