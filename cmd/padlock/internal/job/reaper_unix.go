//go:build unix

package job

import (
	"slices"
	"syscall"
)

// Reaper ends a job after the death of the process that started the job. That process is called the
// starter here. The starter is a child of this process.
type Reaper struct{ job *Job }

// NewReaper returns a Reaper. Call NewReaper before this process starts the child that is to start
// the job. Where the system supports it, NewReaper makes this process adopt orphans: if a child of
// this process dies, the processes that the child has started become children of this process. The
// parameter leave is the field Leave of the job's Spec.
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
// must have been reaped. The argument says whether the command had already ended when the starter
// died.
//
// To reach all processes, TakeOver also signals the command's process group. This is risky if the
// command has ended, because another process may have got its process id. In that case TakeOver
// signals the group only if two conditions are met: it cannot find the remaining processes as
// children of this process, and Leave is not set.
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
