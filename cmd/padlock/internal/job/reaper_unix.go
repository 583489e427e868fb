//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Reaper takes a job over when the process that started it has died. It is a
// child of this one.
type Reaper struct{ job *Job }

// NewReaper is called before that process is started, so that what it leaves
// behind comes to this one. leave is that of the job's Spec.
func NewReaper(leave bool) *Reaper {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Reaper{j}
}

// Rest lists the processes that live under this one, the process that started
// the job among them.
func (r *Reaper) Rest() []int { return r.job.Rest() }

// Group says which process group the command has. Without it what cannot be
// found otherwise is not ended.
func (r *Reaper) Group(group int) { r.job.pid = group }

// TakeOver kills what is left, and returns when nothing is. The other process
// was waited for. ended says that the command had ended before: its number may be
// another's then, and what it left is a child of this process or left alone.
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

// Without returns rest without pid.
func Without(rest []int, pid int) []int {
	return slices.DeleteFunc(rest, func(p int) bool { return p == pid })
}
