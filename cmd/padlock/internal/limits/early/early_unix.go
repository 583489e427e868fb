//go:build unix

// Package early ends the program if the limit of open files is too low. Some libraries open a file
// before main runs. The Go runtime then opens two more files for its own use, and crashes if it
// cannot open them.
//
// Go initialises a package after the packages that it imports. If several packages are ready, Go
// takes them in the alphabetical order of their import paths. This package imports only syscall, so
// it comes before all libraries whose paths begin with a later letter, such as
// google.golang.org/protobuf.
package early

import "syscall"

// least is how many more files this process must be able to open: two for the runtime, one for the
// library, and one to spare.
const least = 4

// status is the exit status of padlock if the limits of the system are too low.
const status = 71

func init() {
	var opened [least]int
	for i := range opened {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE || err == syscall.ENFILE {
			syscall.Write(2, []byte("padlock: too few files may be open (ulimit -n)\n"))
			syscall.Exit(status)
		}
		opened[i] = fd
	}
	for _, fd := range opened {
		syscall.Close(fd)
	}
}
