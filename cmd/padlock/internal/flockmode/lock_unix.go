//go:build linux || darwin || freebsd

package flockmode

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/program"
)

// lock is an open file.
type lock struct {
	fd   int
	what string // the file's name in messages
	flag int    // flags with which the file was opened
}

func (o *options) open() (*lock, error) {
	if len(o.command) > 0 {
		l := &lock{what: o.file}
		return l, l.openWith(syscall.O_RDONLY)
	}
	l := &lock{fd: o.fd, what: strconv.Itoa(o.fd)}
	// Files that this program opened are closed on exec; inherited files are not.
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(l.fd), syscall.F_GETFD, 0)
	if errno == 0 && flags&syscall.FD_CLOEXEC != 0 {
		errno = syscall.EBADF
	}
	if errno != 0 {
		return nil, fail(exitData, "%s: %s", l.what, strerror(errno))
	}
	return l, nil
}

// openWith opens the file, and creates it if it does not exist. A directory is opened only for
// reading, because POSIX does not allow opening a directory with O_CREAT or for writing.
func (l *lock) openWith(access int) (err error) {
	l.flag = access
	l.fd, err = syscall.Open(l.what, access|syscall.O_NOCTTY|syscall.O_CREAT, 0o666)
	if err == syscall.EISDIR {
		l.flag = syscall.O_RDONLY
		l.fd, err = syscall.Open(l.what, syscall.O_RDONLY|syscall.O_NOCTTY, 0)
	}
	status := exitNoInput
	switch err {
	case nil:
		return nil
	case syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		status = exitSystem
	case syscall.EROFS, syscall.ENOSPC:
		status = exitCreate
	}
	return fail(status, "cannot open lock file %s: %s", l.what, strerror(err))
}

func (o *options) how() int {
	how := syscall.LOCK_EX
	switch {
	case o.unlock:
		how = syscall.LOCK_UN
	case o.shared:
		how = syscall.LOCK_SH
	}
	if o.nonblock {
		how |= syscall.LOCK_NB
	}
	return how
}

// take takes the lock. A system call that waits cannot be cancelled. When the time of --wait is
// over, the program ends, which ends the call too.
func (l *lock) take(o *options) error {
	if o.timeout < 0 {
		return fail(exitSystem, "invalid timeout: negative")
	}
	dieQuietly(o)
	result := make(chan error, 1)
	go func() { result <- l.flock(o) }()
	var late <-chan time.Time
	if o.timeout > 0 && !o.nonblock {
		late = time.After(o.timeout)
	}
	select {
	case <-late:
		return o.heldFailure("timeout while waiting to get lock")
	case err := <-result:
		return l.explain(o, err)
	}
}

func (l *lock) flock(o *options) error {
	for {
		err := syscall.Flock(l.fd, o.how())
		switch {
		case err == syscall.EINTR:
		case (err == syscall.EIO || err == syscall.EBADF) && l.mayWrite(o):
			// NFS maps this lock to a write lock, and a write lock needs a file that is open for
			// writing.
			syscall.Close(l.fd)
			if err := l.openWith(syscall.O_RDWR); err != nil || l.flag != syscall.O_RDWR {
				return err
			}
		default:
			return err
		}
	}
}

func (l *lock) mayWrite(o *options) bool {
	const readWrite = 4 | 2
	return o.file != "" && !o.shared && l.flag != syscall.O_RDWR && syscall.Access(l.what, readWrite) == nil
}

func (l *lock) explain(o *options, err error) error {
	var done *failure
	switch {
	case err == nil, errors.As(err, &done):
		return err
	case err == syscall.EWOULDBLOCK:
		return o.heldFailure("failed to get lock")
	case err == syscall.ENOLCK || err == syscall.ENOMEM:
		return fail(exitSystem, "%s: %s", l.what, strerror(err))
	}
	return fail(exitData, "%s: %s", l.what, strerror(err))
}

// heldFailure returns the failure for a lock that another process holds. Without --verbose the
// failure has no message.
func (o *options) heldFailure(text string) error {
	if !o.verbose {
		text = ""
	}
	return &failure{status: o.conflict, text: text}
}

// runCommand runs the command. The command inherits the lock file, with the same number of the file
// descriptor.
func (l *lock) runCommand(o *options) (int, error) {
	path, err := program.Find(o.command[0])
	if err != nil {
		return 0, cannotRun(o.command[0], err)
	}
	if o.noFork {
		return 0, cannotRun(o.command[0], become(path, o.command))
	}
	if o.closes {
		syscall.CloseOnExec(l.fd)
	}
	pid, err := fork(path, o.command)
	if err != nil {
		return 0, cannotRun(o.command[0], err)
	}
	return wait(pid)
}

// become replaces this process like execvp(3). If the file is a script without a "#!" line, the
// shell runs the script.
func become(path string, args []string) error {
	err := syscall.Exec(path, args, os.Environ())
	if err == syscall.ENOEXEC {
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, args[1:]...), os.Environ())
	}
	return err
}

func fork(path string, args []string) (int, error) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	pid, err := syscall.ForkExec(path, args, attr)
	if err == syscall.ENOEXEC {
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", path}, args[1:]...), attr)
	}
	return pid, err
}

func wait(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fail(exitConflict, "cannot wait for the command: %s", strerror(err))
		case status.Exited():
			return status.ExitStatus(), nil
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		default:
			return exitSystem, nil
		}
	}
}

func cannotRun(command string, err error) error {
	status := exitUnavailable
	switch {
	case errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN):
		status = exitSystem
	case errors.Is(err, fs.ErrNotExist):
		err = syscall.ENOENT
	}
	return fail(status, "failed to execute %s: %s", command, strerror(err))
}

// dieQuietly makes some signals end this program without a message, as they end flock(1). Without
// dieQuietly, Go's runtime would ignore these signals, or print a dump. The signals do not end the
// command that this program has started. The command keeps the lock.
//
// SIGALRM is an exception: flock(1) uses this signal for its own time-out. So if the user has set a
// time-out, SIGALRM does not end this program.
func dieQuietly(o *options) {
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		for s := range c {
			if n, ok := s.(syscall.Signal); ok && (n != syscall.SIGALRM || o.timeout == 0 || o.nonblock) {
				os.Exit(128 + int(n))
			}
		}
	}()
}

// strerror returns the text that C has for an error.
func strerror(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
