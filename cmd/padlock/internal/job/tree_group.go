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

// Name returns the name under which the system lists a process. On this system, the name is
// unknown.
func Name(int) string { return "?" }

// SetName does nothing on this system, because the system already lists this process under the
// right name.
func SetName(string) {}
