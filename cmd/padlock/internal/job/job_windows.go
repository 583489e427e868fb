package job

import (
	"os"
	"syscall"
)

const kill = syscall.SIGKILL

// platform is the part of a Job that depends on the system.
type platform struct{ object *object }

// signalAwake ends all processes of the job, whichever signal it gets.
func (j *Job) signalAwake(int, syscall.Signal) { j.Kill() }

// Start runs the command in a job object. The kernel ends the job object when this process ends.
// Start does not wait until the command runs.
func Start(s Spec) *Job {
	j := newJob(&s)
	if j.object, j.err = newObject(); j.err != nil {
		close(j.started)
		return j
	}
	go func() {
		handle, err := j.start(&s)
		j.err = err
		close(j.started)
		if err == nil {
			j.wait(handle)
		}
	}()
	return j
}

func (j *Job) start(s *Spec) (syscall.Handle, error) {
	attr := &syscall.ProcAttr{Env: s.Env, Files: standard(), Sys: &syscall.SysProcAttr{CreationFlags: createSuspended}}
	pid, handle, err := syscall.StartProcess(s.Path, s.Args, attr)
	if err != nil {
		j.object.close()
		return 0, err
	}
	err = ErrKilled
	if !j.killing.Load() {
		err = j.object.addAndResume(syscall.Handle(handle))
	}
	if err != nil {
		_ = syscall.TerminateProcess(syscall.Handle(handle), 1)
		_ = syscall.CloseHandle(syscall.Handle(handle))
		j.object.close()
		return 0, err
	}
	j.pid.Store(int64(pid))
	if j.killing.Load() {
		j.killNow()
	}
	return syscall.Handle(handle), nil
}

func standard() []uintptr { return []uintptr{os.Stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd()} }

func (j *Job) wait(handle syscall.Handle) {
	j.exit.Code = 1
	var code uint32
	if _, err := syscall.WaitForSingleObject(handle, syscall.INFINITE); err == nil && syscall.GetExitCodeProcess(handle, &code) == nil {
		j.exit.Code = int(code)
	}
	_ = syscall.CloseHandle(handle)
	if j.leave {
		j.object.letGo()
	}
	close(j.done)
}

// Signal ends the tree, because Windows has no signals.
func (j *Job) Signal(syscall.Signal) { j.Kill() }

// SignalCommand ends the tree.
func (j *Job) SignalCommand(syscall.Signal) { j.Kill() }

// Continue does nothing.
func (j *Job) Continue() {}

// Rest returns the command's process number as long as any process of the tree lives.
func (j *Job) Rest() []int {
	if j.object.active() == 0 {
		return nil
	}
	return []int{j.Group()}
}

func (j *Job) killNow() { j.object.terminate() }

// Name returns the name under which the system lists a process. On this system, the name is
// unknown.
func Name(int) string { return "?" }
