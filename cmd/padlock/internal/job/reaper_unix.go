//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Reaper takes over a job when the process that started the job has died. That process was a child
// of this process.
type Reaper struct{ job *Job }

// NewReaper returns a Reaper. Call it before you start the process that starts the job. From then
// on, if a child of this process dies, this process becomes the parent of the processes that the
// child leaves behind. The parameter leave is the field Leave of the job's Spec.
func NewReaper(leave bool) *Reaper {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Reaper{j}
}

// Rest lists the living descendants of this process. The process that started the job is one of
// them.
func (r *Reaper) Rest() []int { return r.job.Rest() }

// Group sets the command's process group. If Group is not called, TakeOver does not end processes
// that can be found only through the group.
func (r *Reaper) Group(group int) { r.job.pid = group }

// TakeOver kills the remaining processes, and returns when none is left. The process that started
// the job must have been reaped. If ended is true, the command had ended before that, and another
// process may have the command's number. In that case TakeOver signals the command's group only if
// Leave is not set, and if the leftover processes cannot be found as children of this process.
func (r *Reaper) TakeOver(ended bool) {
	j := r.job
	j.killing.Store(true)
	close(j.done)
	if j.pid != 0 && (!ended || !j.adopts && !j.leave) {
		j.signal(-j.pid, kill)
	}
	if j.adopts {
		go j.watchChildren()
	}
	j.EndRest(syscall.SIGKILL, nil)
	<-j.gone
}

// Without returns rest without the given pid.
func Without(rest []int, pid int) []int {
	return slices.DeleteFunc(rest, func(p int) bool { return p == pid })
}
