//go:build unix && !linux

package job

import "syscall"

func (*Job) adopt() {}

func Duplicate(fd int) (int, error) { return syscall.Dup(fd) }

func dieWithUs(*syscall.SysProcAttr) {}

// Rest names the command's process group.
func (j *Job) Rest() []int { return j.groupRest() }

// Name is what the system calls a process; here it is not known.
func Name(int) string { return "?" }
