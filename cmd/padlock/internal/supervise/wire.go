package supervise

import (
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// order is a message from the front to the supervisor, one object per line.
type order struct {
	Do     string
	Signal int           `json:",omitempty"`
	Grace  time.Duration `json:",omitempty"`
	Lease  *moment       `json:",omitempty"` // nil means no lease
	Answer bool          `json:",omitempty"` // this answers isLate
	Job    *jobSpec      `json:",omitempty"`
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
	PID    int        `json:",omitempty"`
	Errno  int        `json:",omitempty"`
	Code   int        `json:",omitempty"`
	Signal int        `json:",omitempty"`
	Left   []Leftover `json:",omitempty"`
}

// The kinds of news.
const (
	isStarted = "started"
	isFailed  = "failed"
	isStopped = "stopped"
	isWoken   = "woken"
	isHeard   = "heard"
	isLow     = "low"
	isLate    = "late" // the supervisor was stopped or starved, and asks for the end of the lease
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

// jobSpec is a Spec in JSON. Arguments may contain any bytes, but JSON strings may not.
type jobSpec struct {
	Path        []byte
	Args, Env   [][]byte
	Pass, Leave bool
	Signal      int
	Grace       time.Duration
	Lease       *moment
}

func newJobSpec(s *Spec) *jobSpec {
	return &jobSpec{
		Path: []byte(s.Path), Args: allBytes(s.Args), Env: allBytes(s.Env),
		Pass: s.Pass, Leave: s.Leave, Signal: int(s.Signal), Grace: s.Grace, Lease: until(s.Lease),
	}
}

func (s *jobSpec) signal() syscall.Signal { return syscall.Signal(s.Signal) }

func allBytes(list []string) (out [][]byte) {
	for _, s := range list {
		out = append(out, []byte(s))
	}
	return out
}

func allStrings(list [][]byte) (out []string) {
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}
