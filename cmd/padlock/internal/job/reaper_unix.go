//go:build unix

package job

import (
	"slices"
	"syscall"
)

// A Reaper ends a job if the process that started the job dies. That process is called the starter.
// The Reaper runs in the parent of the starter.
type Reaper struct{ job *Job }

// NewReaper returns a Reaper for a job with the given Spec.Leave. Call NewReaper before the starter
// is started. Where the system allows it, the current process then adopts orphans: if the starter
// dies, the starter's children become children of the current process.
func NewReaper(leave bool) *Reaper {
	j := newJob(&Spec{Leave: leave})
	j.taken = true
	j.adopt()
	return &Reaper{j}
}

// Rest lists the living descendants of this process, including the starter.
func (r *Reaper) Rest() []int { return r.job.Rest() }

// Refused reports whether the system has refused to let this process adopt orphans.
func (r *Reaper) Refused() bool { return r.job.refused }

// Group sets the command's process group. If Group is not called, TakeOver does not end processes
// that can be found only through the group.
func (r *Reaper) Group(group int) { r.job.pid.Store(int64(group)) }

// TakeOver kills the remaining processes of the job, and returns when none is left. The caller must
// have reaped the starter before. The argument says whether the command had already ended when the
// starter died.
//
// TakeOver finds the remaining processes as children of this process. It also signals the command's
// process group, to reach those that it cannot find. If the command has ended, another process may
// have got its process id, so a signal to the group is risky. TakeOver then signals the group only
// if this process cannot adopt orphans and Leave is not set.
func (r *Reaper) TakeOver(ended bool) {
	j := r.job
	j.killing.Store(true)
	close(j.done)
	if j.Group() != 0 && (!ended || !j.adopts && !j.leave) {
		j.signal(-j.Group(), kill)
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
