package job

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Spec describes the command. It gets the standard input, output and error of this process, and
// every descriptor that is not closed on exec.
type Spec struct {
	Path string   // path of the program
	Args []string // the name by which it is called, and its arguments
	Env  []string
	Keep []*os.File // stay open in the command

	// If Leave is set, the processes that the command leaves behind continue to run, and the job
	// ends when the command ends.
	Leave bool
}

// Job is a command that was started, or that is being started. Its methods are safe for concurrent
// use.
type Job struct {
	platform
	pid     atomic.Int64 // 0 until the command runs
	leave   bool
	adopts  bool         // this process becomes the parent of the job's orphans
	refused bool         // this process may not adopt orphans, although Linux has a call for it
	before  map[int]bool // children of this process that do not belong to the job
	err     error        // why the command could not be started; see Started
	started chan struct{}
	exit    Exit
	done    chan struct{}
	gone    chan struct{}
	once    sync.Once
	stopped chan syscall.Signal
	killing atomic.Bool
}

// Exit is how a command ended.
type Exit struct {
	Code   int            // 0 to 255 if Signal is 0
	Signal syscall.Signal // the signal that killed it
}

// Status returns the exit status as a shell reports it.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

func newJob(s *Spec) *Job {
	return &Job{leave: s.Leave, started: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
}

// ErrKilled means that Kill was called before the command was executed.
const ErrKilled = syscall.ECANCELED

// Started is closed when the command runs, or cannot be started. Then Err is known.
func (j *Job) Started() <-chan struct{} { return j.started }

// Err says why the command could not be started. The error is that of execve(2), or ErrKilled, and
// does not contain the command's name. Call it after Started.
func (j *Job) Err() error { return j.err }

// Group returns the process group of the command, or 0 before Started.
func (j *Job) Group() int { return int(j.pid.Load()) }
