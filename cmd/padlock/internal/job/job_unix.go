//go:build unix

package job

import (
	"runtime"
	"syscall"
)

const kill = syscall.SIGKILL

// Start runs the command in a process group of its own. It does not wait until the command runs,
// because execve(2) can take long, for example on a file system that does not respond. Meanwhile the
// job can be signalled and killed: on Linux that reaches the process that shall become the command;
// on other systems it takes effect when execve(2) has returned.
func Start(s Spec) *Job {
	j := newJob(&s)
	j.adopt()
	go func() {
		// The kernel ends the command when the thread that started it ends. To keep that thread
		// alive, this goroutine stays on it and runs watchChildren.
		runtime.LockOSThread()
		j.err = j.start(&s)
		if j.killing.Load() {
			j.killNow()
		}
		close(j.started)
		if j.err == nil {
			j.watchChildren()
		}
	}()
	return j
}

func (j *Job) start(s *Spec) error {
	attr := &syscall.ProcAttr{Env: s.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	dieWithUs(attr.Sys)
	for _, file := range s.Keep {
		// A duplicate is not closed on exec. Duplicate chooses a free number, so that descriptors
		// that are passed on to the command keep their numbers.
		fd, err := Duplicate(int(file.Fd()))
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
	}
	if j.killing.Load() {
		return ErrKilled
	}
	pid, err := syscall.ForkExec(s.Path, s.Args, attr)
	if err == syscall.ENOEXEC {
		// As in execvp(3), the shell runs a script that does not name its interpreter.
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", s.Path}, s.Args[1:]...), attr)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pid.Store(int64(pid))
	for _, sig := range j.unsent {
		j.signal(-pid, sig)
	}
	return nil
}

// watchChildren observes the command, and reaps the orphans that this process has adopted.
func (j *Job) watchChildren() {
	whom := j.Group()
	if j.adopts {
		whom = -1 // all children
	}
	for {
		pid, status, err := j.reap(whom)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: no child is left
			if j.adopts {
				j.once.Do(func() { close(j.gone) })
			}
			return
		case pid != j.Group() || j.taken:
		case status.Stopped():
			j.tellStopped(status.StopSignal())
		default:
			j.exit = Exit{Code: status.ExitStatus()}
			if status.Signaled() {
				j.exit = Exit{Signal: status.Signal()}
			}
			close(j.done)
			if j.leave {
				return
			}
		}
	}
}

// tellStopped reports that a signal has stopped the command. If nobody has read an earlier report
// yet, the new report replaces it.
func (j *Job) tellStopped(sig syscall.Signal) {
	select {
	case <-j.stopped:
	default:
	}
	j.stopped <- sig
}

// Signal sends sig to the command and to its process group, as a terminal does. After the end of
// the command it does nothing.
func (j *Job) Signal(sig syscall.Signal) { j.signalUnreaped(-1, sig) }

// SignalCommand sends sig only to the command.
func (j *Job) SignalCommand(sig syscall.Signal) { j.signalUnreaped(1, sig) }

// Continue wakes stopped processes.
func (j *Job) Continue() { j.Signal(syscall.SIGCONT) }

// signalUnreaped sends a signal to the command, or to its group if sign is -1, unless the command
// was reaped. Once it is reaped, another process may get its number. If the command is being
// started, the signal goes to the process that shall become the command.
func (j *Job) signalUnreaped(sign int, sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.reaped:
	case j.Group() != 0:
		j.signal(sign*j.Group(), sig)
	default:
		rest := j.Rest()
		if sig == syscall.SIGTSTP {
			rest = nil // a stop of the command is reported only once it runs
		}
		for _, pid := range rest {
			j.signal(pid, sig)
		}
		if len(rest) == 0 {
			j.unsent = append(j.unsent, sig)
		}
	}
}

func (j *Job) killNow() {
	rest := j.Rest() // once the command is dead, its children cannot be found any more
	j.signalUnreaped(-1, kill)
	for _, pid := range append(rest, j.Rest()...) {
		j.signal(pid, kill)
	}
}
