package job

import (
	"os"
	"syscall"
)

const kill = syscall.SIGKILL

func signal(pid int, _ syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func wake(int) {}

// Start runs the command.
func Start(s Spec) (*Job, error) {
	j := newJob(&s)
	p, err := os.StartProcess(s.Path, s.Args, &os.ProcAttr{Env: s.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return nil, err
	}
	j.pid = p.Pid
	go func() {
		j.exit.Code = 1
		if state, err := p.Wait(); err == nil {
			j.exit.Code = state.ExitCode()
		}
		close(j.done)
	}()
	return j, nil
}

// Signal ends the command: Windows has no signals to send.
func (j *Job) Signal(syscall.Signal) { j.killNow() }

// SignalCommand ends the command.
func (j *Job) SignalCommand(syscall.Signal) { j.killNow() }

// Continue does nothing.
func (j *Job) Continue() {}

// Rest is empty after the command has ended.
func (j *Job) Rest() []int { return nil }

func (j *Job) killNow() {
	select {
	case <-j.done:
	default:
		signal(j.pid, kill)
	}
}

// Name is what the system calls a process; here it is not known.
func Name(int) string { return "?" }
