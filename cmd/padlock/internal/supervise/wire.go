package supervise

import (
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// The process that holds the lock (the front) and the supervisor run the same program, so they
// always know the same messages. A message is a JSON object.

// order is a message from the front to the supervisor.
type order struct {
	Do     string
	Signal int
	Grace  time.Duration
	Lease  *moment // nil means no lease
	Answer bool    // this answers isLate
	Job    *jobSpec
}

// The kinds of orders.
const (
	doStart         = "start"
	doSignal        = "signal"
	doSignalCommand = "signal command"
	doContinue      = "continue"
	doLease         = "lease"
	doEnd           = "end"
	doKill          = "kill"
)

// news is a message from the supervisor to the front.
type news struct {
	Is     string
	PID    int
	Errno  int
	Code   int
	Signal int
	Left   []Leftover
}

// The kinds of news.
const (
	isStarted = "started"
	isFailed  = "failed"
	isStopped = "stopped"
	isWoken   = "woken"
	isHeard   = "heard"
	isLow     = "low"
	isLate    = "late" // the supervisor was stopped or starved, and asks when the lease ends
	isLeft    = "left"
	isKilled  = "killed"
	isDone    = "done"
	isGone    = "gone"
)

// Leftover is a process that the command left running, with its state when it was found.
type Leftover struct {
	PID  int
	Name string // the system's name; "?" if unknown
}

func leftovers(pids []int) (list []Leftover) {
	for _, pid := range pids {
		list = append(list, Leftover{pid, job.Name(pid)})
	}
	return list
}

// jobSpec contains the fields of a Spec that are sent to the supervisor. Its texts are bytes,
// because they need not be UTF-8, and JSON would change them then.
type jobSpec struct {
	Path      []byte
	Args, Env [][]byte
	Leave     bool
	Signal    int
	Grace     time.Duration
	Lease     *moment
}

func newJobSpec(s *Spec) *jobSpec {
	return &jobSpec{
		Path: []byte(s.Path), Args: toBytes(s.Args), Env: toBytes(s.Env),
		Leave: s.Leave, Signal: int(s.Signal), Grace: s.Grace, Lease: momentAfter(s.Lease()),
	}
}

func (s *jobSpec) signal() syscall.Signal { return syscall.Signal(s.Signal) }

func toBytes(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

func toTexts(all [][]byte) (texts []string) {
	for _, b := range all {
		texts = append(texts, string(b))
	}
	return texts
}
