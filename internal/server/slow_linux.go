package server

import (
	"os"
	"syscall"
)

// A SlowProgram is a program whose execution does not get on, as on a disk that does not respond:
// each execve(2) of it waits in the kernel until Go is called. It uses a lease of fcntl(2), which
// the kernel ends by itself after /proc/sys/fs/lease-break-time, 45 s.
type SlowProgram struct{ file *os.File }

const setLease, getLease = 1024, 1025 // F_SETLEASE, F_GETLEASE

// NewSlowProgram writes a program to path.
func NewSlowProgram(path string, text []byte) (*SlowProgram, error) {
	if err := WriteProgram(path, text); err != nil {
		return nil, err
	}
	return SlowDown(path)
}

// SlowDown makes a program slow that is there. It fails with EAGAIN while another process has the
// file open.
func SlowDown(path string) (*SlowProgram, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &SlowProgram{file}
	if err := s.lease(syscall.F_WRLCK); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *SlowProgram) lease(kind int) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, s.file.Fd(), setLease, uintptr(kind)); errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	return nil
}

// Begun reports whether a process waits in execve.
func (s *SlowProgram) Begun() bool {
	kind, _, errno := syscall.Syscall(syscall.SYS_FCNTL, s.file.Fd(), getLease, 0)
	return errno == 0 && kind != syscall.F_WRLCK
}

// Go lets all processes go on.
func (s *SlowProgram) Go() error {
	defer s.file.Close()
	return s.lease(syscall.F_UNLCK)
}
