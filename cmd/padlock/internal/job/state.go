package job

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Spec says what to run. Standard input, output and error are this process's,
// and so is every descriptor that is not closed on exec.
type Spec struct {
	Path string   // of the program
	Args []string // the name it is called by, and its arguments
	Env  []string
	Keep *os.File // stays open in the command as long as it likes; may be nil

	// Leave leaves alone what the command leaves behind: the job is over with
	// the command itself.
	Leave bool
}

// Job is a command that was started. Its methods are safe for concurrent use.
type Job struct {
	platform
	pid     int
	leave   bool
	adopts  bool         // this process becomes the parent of orphans
	before  map[int]bool // children of this process that are not the job's
	exit    Exit
	done    chan struct{}
	gone    chan struct{}
	once    sync.Once
	stopped chan syscall.Signal
	killing atomic.Bool
}

// Exit is how a command ended.
type Exit struct {
	Code   int            // 0 to 255, if Signal is 0
	Signal syscall.Signal // that killed it
}

// Status is the exit status that a shell reports.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

func newJob(s *Spec) *Job {
	return &Job{leave: s.Leave, done: make(chan struct{}), gone: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
}
