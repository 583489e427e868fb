//go:build unix && !linux

package job

import "syscall"

func (*Job) adopt() {}

func Duplicate(fd int) (int, error) { return syscall.Dup(fd) }

func dieWithUs(*syscall.SysProcAttr) {}

// reap waits for a child of this process that has ended or was stopped.
func (j *Job) reap(whom int) (pid int, status syscall.WaitStatus, err error) {
	pid, err = syscall.Wait4(whom, &status, syscall.WUNTRACED, nil)
	if j.isFinal(pid, status) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.reaped = true
	}
	return pid, status, err
}

// Rest returns the command's process group.
func (j *Job) Rest() []int { return j.groupRest() }

// Name returns the system's name of a process. On this system it is unknown.
func Name(int) string { return "?" }

// SetName sets the system's name of this process. On this system it is already right.
func SetName(string) {}
