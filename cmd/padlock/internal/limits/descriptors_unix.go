//go:build unix

package limits

import "syscall"

// Descriptors checks that n more files can be opened.
func Descriptors(n int) error {
	for range n {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE || err == syscall.ENFILE {
			return ErrDescriptors
		}
		if err == nil {
			defer syscall.Close(fd)
		}
	}
	return nil
}
