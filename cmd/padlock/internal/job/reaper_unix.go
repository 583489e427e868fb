//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Reaper ends a job whose starter has died. The starter is a child of this process, and it has
// started the job.
type Reaper struct{ job *Job }

// NewReaper returns a Reaper. Call it before you start the starter. From then on, where the system
// supports it, this process becomes the parent of every process whose parent was a child of this
// process and has died. The parameter leave is the field Leave of the job's Spec.
func NewReaper(leave bool) *Reaper {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Reaper{j}
}

// Rest lists the living descendants of this process. The starter is one of them.
func (r *Reaper) Rest() []int { return r.job.Rest() }

// Group sets the command's process group. If Group is not called, TakeOver does not end processes
// that can be found only through the group.
func (r *Reaper) Group(group int) { r.job.pid = group }

// TakeOver kills the remaining processes of the job, and returns when none is left. The starter
// must have been reaped. The parameter ended says that the command had already ended when the
// starter died. In that case another process may have got the command's process id, so it is risky
// to signal the command's process group. TakeOver then signals the group only if it cannot find the
// leftover processes as children of this process. With Leave, it does not even do that.
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
