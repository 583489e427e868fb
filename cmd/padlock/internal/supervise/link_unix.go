//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"syscall"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

const (
	// verb is the first argument of a supervisor's command line.
	verb = "supervise"
	// variable is the environment variable with the numbers of the supervisor's descriptors.
	variable = "PADLOCK_SUPERVISE"
)

// memory makes the supervisor's runtime collect garbage only if there is much of it. A collection
// stops all threads. It would wait for the one that is executing the command (vfork), and the
// supervisor would watch nothing. The command does not get these variables: the front has its own.
var memory = []string{"GOGC=off", "GOMEMLIMIT=32MiB"}

// process is a supervisor that runs as a separate process.
type process struct {
	spec   *Spec
	pid    int
	os     *os.Process // never signals another process, even if the pid is used again
	reaper *job.Reaper
}

func newLink(s *Spec) link { return &process{spec: s} }

// startSupervisor starts the supervisor in its own process group, so that it does not get the
// signals that a terminal sends to the front's group.
func (p *process) startSupervisor() (io.ReadWriteCloser, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(ends[0])
	defer syscall.Close(ends[1])
	p.reaper = job.NewReaper(p.spec.Leave)
	if p.pid, err = p.fork(ends[1]); err != nil {
		syscall.Close(ends[0])
		return nil, err
	}
	if p.os, err = os.FindProcess(p.pid); err != nil {
		syscall.Close(ends[0])
		return nil, err
	}
	return os.NewFile(uintptr(ends[0]), "supervisor"), nil
}

// fork starts the supervisor. The supervisor gets a duplicate of the socket and of each file in
// Spec.Keep. A duplicate gets a free number, so the descriptors that are meant for the command keep
// their numbers.
func (p *process) fork(socket int) (pid int, err error) {
	theirs, err := job.Duplicate(socket)
	syscall.CloseOnExec(socket)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(theirs)
	fds := strconv.Itoa(theirs)
	for _, file := range p.spec.Keep {
		keep, err := job.Duplicate(int(file.Fd()))
		if err != nil {
			return 0, err
		}
		defer syscall.Close(keep)
		fds += " " + strconv.Itoa(keep)
	}
	program, err := self()
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(program, []string{os.Args[0], verb, p.spec.Title}, &syscall.ProcAttr{
		Env:   append(append([]string{variable + "=" + fds}, memory...), os.Environ()...), // Go takes the first of two variables with the same name
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// errNoPath is the error on a Linux system without /proc.
var errNoPath = errors.New("the path of padlock's program is unknown, because /proc is not mounted")

// self returns a path with which this program can be started once more. On Linux, the path is right
// even if the program's file has been replaced.
func self() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	program, err := os.Executable()
	if err != nil {
		return "", errNoPath
	}
	return program, nil
}

func (p *process) join() syscall.Signal {
	state, err := p.os.Wait()
	if err != nil {
		return 0
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

func (p *process) kill() error { return p.os.Kill() }

func (p *process) takeOver(group int, ended bool) {
	p.reaper.Group(group)
	p.reaper.TakeOver(ended)
}

func (p *process) blind() bool { return p.reaper.Refused() }

func (p *process) rest() []int { return job.Without(p.reaper.Rest(), p.pid) }

// Called reports whether this process was started as a supervisor.
func Called() bool {
	return len(os.Args) > 1 && os.Args[1] == verb && os.Getenv(variable) != ""
}

// notForUsers ends this supervisor with a message, because a user has started it. Only the command
// "padlock run" may start a supervisor.
func notForUsers() {
	_, _ = os.Stderr.WriteString("padlock: " + verb + " is started by padlock run only; unset " + variable + "\n")
	os.Exit(64)
}

// Main is the supervisor's program. The parent of the supervisor is the front, the process that
// holds the lock. Main reports each signal to the front, which handles the signal. If the front has
// died, Main calls orphan with the command's process group, and then ends the job.
func Main(signals <-chan os.Signal, orphan func(group int)) {
	var fds []int
	for _, f := range bytes.Fields([]byte(os.Getenv(variable))) {
		fd, err := strconv.Atoi(string(f))
		if err != nil {
			notForUsers()
		}
		syscall.CloseOnExec(fd)
		fds = append(fds, fd)
	}
	if len(fds) == 0 {
		notForUsers()
	}
	job.SetName(path.Base(os.Args[0]))
	var keep []*os.File
	for _, fd := range fds[1:] {
		keep = append(keep, os.NewFile(uintptr(fd), "lock"))
	}
	serve(os.NewFile(uintptr(fds[0]), "front"), keep, signals, orphan)
	runtime.KeepAlive(keep) // otherwise the garbage collector could close the files during the job
	os.Exit(0)
}
