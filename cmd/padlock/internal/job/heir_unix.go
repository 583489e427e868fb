//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Heir takes a job over when the process that started it has died. It is a
// child of this one.
type Heir struct{ job *Job }

// NewHeir is called before that process is started, so that what it leaves
// behind comes to this one. leave is that of the job's Spec.
func NewHeir(leave bool) *Heir {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Heir{j}
}

// Rest lists the processes that live under this one, the process that started
// the job among them.
func (h *Heir) Rest() []int { return h.job.Rest() }

// Group says which process group the command has. Without it what cannot be
// found otherwise is not ended.
func (h *Heir) Group(group int) { h.job.pid = group }

// TakeOver kills what is left, and returns when nothing is. The other process
// was waited for. ended says that the command had ended before: its number may be
// another's then, and what it left is a child of this process or left alone.
func (h *Heir) TakeOver(ended bool) {
	j := h.job
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
