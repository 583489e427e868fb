package supervise

import (
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

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

// jobSpec contains the fields of a Spec that are sent to the supervisor.
type jobSpec struct {
	Path        string
	Args, Env   []string
	Pass, Leave bool
	Signal      int
	Grace       time.Duration
	Lease       *moment
}

func newJobSpec(s *Spec) *jobSpec {
	return &jobSpec{
		Path: s.Path, Args: s.Args, Env: s.Env,
		Pass: s.Pass, Leave: s.Leave, Signal: int(s.Signal), Grace: s.Grace, Lease: momentAfter(s.Lease),
	}
}

func (s *jobSpec) signal() syscall.Signal { return syscall.Signal(s.Signal) }

func lease(f fields, m **moment) {
	if pointerField(f, m) {
		(*m).fields(f)
	}
}

func (o *order) fields(f fields) {
	f.text(&o.Do)
	integer(f, &o.Signal)
	duration(f, &o.Grace)
	lease(f, &o.Lease)
	yesNo(f, &o.Answer)
	if pointerField(f, &o.Job) {
		o.Job.fields(f)
	}
}

func (s *jobSpec) fields(f fields) {
	f.text(&s.Path)
	list(f, &s.Args, f.text)
	list(f, &s.Env, f.text)
	yesNo(f, &s.Pass)
	yesNo(f, &s.Leave)
	integer(f, &s.Signal)
	duration(f, &s.Grace)
	lease(f, &s.Lease)
}

func (n *news) fields(f fields) {
	f.text(&n.Is)
	integer(f, &n.PID)
	integer(f, &n.Errno)
	integer(f, &n.Code)
	integer(f, &n.Signal)
	list(f, &n.Left, func(l *Leftover) {
		integer(f, &l.PID)
		f.text(&l.Name)
	})
}
