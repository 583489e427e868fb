// Package supervise runs a job under a process of its own, the supervisor. The process that holds
// the lock is called the front. When the front or the supervisor dies, however that happens, the
// other one ends the job. So the job outlives neither the front nor the lock. The supervisor also
// watches the end of the lease, in case the front hangs or is stopped. It holds copies of the files
// that carry the locks until no process of the job is left.
//
// On Windows the kernel ends the job together with the process that has its handle. There the
// supervisor is a part of the front.
package supervise

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// Forever is the lease of a lock that does not expire.
const Forever time.Duration = 1<<63 - 1

// ErrStart means that the supervisor could not be started.
var ErrStart = errors.New("the supervisor of the command cannot be started")

// startError is ErrStart with its cause. Package fmt, which could join the two, is initialised too
// late for the supervisor: see package early.
type startError struct{ cause error }

func (e *startError) Error() string   { return ErrStart.Error() + ": " + e.cause.Error() }
func (e *startError) Unwrap() []error { return []error{ErrStart, e.cause} }

// KilledError means that a signal ended the supervisor before it had reported that the command
// runs.
type KilledError struct{ Signal syscall.Signal }

func (e *KilledError) Error() string {
	return "the supervisor of the command was ended by a signal: " + e.Signal.String()
}

// Spec describes the job and the lease.
type Spec struct {
	Title  string   // the supervisor's name in lists of processes
	Path   string   // path of the program
	Args   []string // the name by which it is called, and its arguments
	Env    []string
	Keep   []*os.File           // open in the supervisor until no process of the job is left; the command inherits it, unless Leave is set
	Leave  bool                 // padlock does not end processes that the command leaves running
	Signal syscall.Signal       // the signal that asks the job to end
	Grace  time.Duration        // the time between Signal and KILL
	Lease  func() time.Duration // how long the job may run from now on if the lease is not renewed, or Forever
}

// Process is a job under its supervisor. Its methods are safe for concurrent
// use.
type Process struct {
	link           link
	mu             sync.Mutex // guards sending
	conn           io.ReadWriteCloser
	group          atomic.Int64
	exit           job.Exit
	killed         atomic.Bool
	waking         atomic.Int64 // calls of Continue that the supervisor has not carried out yet
	hung           atomic.Bool  // this process killed the supervisor, because the supervisor did not respond
	over           bool         // the supervisor reported that no process is left
	started        chan error
	done           chan struct{}
	gone           chan struct{}
	supervisorLost chan struct{}
	low            chan struct{}
	asked          chan struct{}
	left           chan []Leftover
	stopped        chan syscall.Signal
	heard          chan syscall.Signal
}

// link is the connection of this process to the supervisor's process.
type link interface {
	// join waits until the supervisor is gone and its files are closed. It returns the signal that
	// ended the supervisor, or 0.
	join() syscall.Signal
	kill() error // kills only the supervisor; after join it does nothing
	// takeOver ends the processes of the job that a dead supervisor has left running. Call it after
	// join. The parameter ended says whether the command has already ended.
	takeOver(group int, ended bool)
	rest() []int // the living processes of the job that can be found
	blind() bool // a filter for system calls hides processes that leave the command's group
	startSupervisor() (io.ReadWriteCloser, error)
}

// Start starts the supervisor, and orders it to start the job. It does not wait until the job runs;
// see Started. If Start returns an error, which is ErrStart, no process is left.
func Start(s Spec) (*Process, error) {
	p := &Process{
		started: make(chan error, 1), done: make(chan struct{}), gone: make(chan struct{}), supervisorLost: make(chan struct{}), low: make(chan struct{}),
		stopped: make(chan syscall.Signal, 16), heard: make(chan syscall.Signal, 16), asked: make(chan struct{}, 1), left: make(chan []Leftover, 16), link: newLink(&s),
	}
	conn, err := p.link.startSupervisor()
	if err != nil {
		return nil, &startError{err}
	}
	p.conn = conn
	go p.listen()
	p.sendOrder(&order{Do: doStart, Job: newJobSpec(&s)}) // with the lease of now: the start may have taken long
	return p, nil
}

// Started gets one value: nil when the command runs, or the error of its start. If the command
// cannot be executed, the error is that of execve(2). If the job was killed before it ran, the error
// is job.ErrKilled. All other errors are ErrStart or a KilledError. After an error, Gone is closed,
// too. Until the command runs, all orders apply to the process that shall become the command.
func (p *Process) Started() <-chan error { return p.started }

// Group returns the process group of the command, or 0 until the command runs.
func (p *Process) Group() int { return int(p.group.Load()) }

// Done is closed when the command itself has ended and Exit is known. With Leave, the supervisor
// has ended too.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the command ended. Before Done it returns the zero Exit.
func (p *Process) Exit() job.Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return job.Exit{}
	}
}

// Gone is closed when the supervisor and all processes of the job have ended. If Spec.Leave is set,
// Gone is closed even if processes that the command left behind are still running.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// SupervisorLost is closed when another process has killed the supervisor. The rest of the job is
// then killed.
func (p *Process) SupervisorLost() <-chan struct{} { return p.supervisorLost }

// Low is closed when the supervisor has begun to end the job because the lease is about to end.
func (p *Process) Low() <-chan struct{} { return p.low }

// Stopped returns a channel that gets a value each time the command is stopped. The value is the
// signal that stopped the command.
func (p *Process) Stopped() <-chan syscall.Signal { return p.stopped }

// Heard reports signals that were sent to the supervisor. The command may send such signals,
// because the supervisor is its parent process.
func (p *Process) Heard() <-chan syscall.Signal { return p.heard }

// Rest lists the living processes of the job.
func (p *Process) Rest() []int { return p.link.rest() }

// Blind reports whether processes that leave the command's process group cannot be found, because a
// filter for system calls refuses what padlock needs for that.
func (p *Process) Blind() bool { return p.link.blind() }

// Left reports the processes that the command left running, before padlock ends them.
func (p *Process) Left() <-chan []Leftover { return p.left }

// Signal sends sig to the command and to its process group.
func (p *Process) Signal(sig syscall.Signal) { p.sendOrder(&order{Do: doSignal, Signal: int(sig)}) }

// SignalCommand sends sig only to the command.
func (p *Process) SignalCommand(sig syscall.Signal) {
	p.sendOrder(&order{Do: doSignalCommand, Signal: int(sig)})
}

// Continue wakes stopped processes. If a stop was reported and nobody has read the report yet, the
// report is withdrawn.
func (p *Process) Continue() {
	p.waking.Add(1)
	for {
		select {
		case <-p.stopped:
		default:
			p.sendOrder(&order{Do: doContinue})
			return
		}
	}
}

// Lease tells the supervisor how long the lock is held from now on.
func (p *Process) Lease(left time.Duration) {
	p.sendOrder(&order{Do: doLease, Lease: momentAfter(left)})
}

// Asked receives a value when the supervisor asks how long the lock is still held. The supervisor
// asks this after it was stopped or starved. The caller must then call Answer.
func (p *Process) Asked() <-chan struct{} { return p.asked }

// Answer answers a question from Asked. Like Lease, it tells the supervisor how long the lock is
// held from now on.
func (p *Process) Answer(left time.Duration) {
	p.sendOrder(&order{Do: doLease, Lease: momentAfter(left), Answer: true})
}

// End makes the supervisor send Spec.Signal to the job, and KILL after the grace.
func (p *Process) End(grace time.Duration) {
	p.sendOrder(&order{Do: doEnd, Grace: grace})
	p.expectKill(grace)
}

// Kill kills the job, including processes that appear later.
func (p *Process) Kill() {
	p.sendOrder(&order{Do: doKill})
	p.expectKill(0)
}

// slack is the extra time in which the supervisor must report that it has killed the job. A
// supervisor that takes longer counts as hung.
const slack = 400 * time.Millisecond

// expectKill makes sure that the job ends even if the supervisor hangs. The supervisor must report
// within the given time, plus 400 ms (slack), that it has killed the job. If this report does not
// come, expectKill kills the supervisor, which ends the job too.
func (p *Process) expectKill(after time.Duration) {
	time.AfterFunc(after+slack, func() {
		select {
		case <-p.gone:
		default:
			if !p.killed.Load() {
				p.hung.Store(true)
				_ = p.link.kill()
			}
		}
	})
}

// sendOrder sends an order to the supervisor. If the supervisor is gone, another goroutine notices.
func (p *Process) sendOrder(o *order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = json.NewEncoder(p.conn).Encode(o)
}

// listen reads the supervisor's news. When the supervisor has died, listen ends what is left of the
// job.
func (p *Process) listen() {
	messages := json.NewDecoder(p.conn)
	for {
		var n news
		if messages.Decode(&n) != nil {
			break
		}
		p.hear(&n)
	}
	killer := p.link.join()
	_ = p.conn.Close()
	if !p.over {
		p.inherit(killer)
	}
	close(p.gone)
}

func (p *Process) hear(n *news) {
	switch n.Is {
	case isStarted:
		p.group.Store(int64(n.PID))
		p.started <- nil
	case isFailed:
		p.over = true
		p.started <- syscall.Errno(n.Errno)
	case isStopped:
		if p.waking.Load() == 0 {
			passSignal(p.stopped, n.Signal)
		}
	case isWoken:
		p.waking.Add(-1)
	case isHeard:
		passSignal(p.heard, n.Signal)
	case isLow:
		close(p.low)
	case isLate:
		select {
		case p.asked <- struct{}{}:
		default:
		}
	case isLeft:
		select {
		case p.left <- n.Left:
		default: // unread signals are already pending
		}
	case isKilled:
		p.killed.Store(true)
	case isDone:
		p.exit = job.Exit{Code: n.Code, Signal: syscall.Signal(n.Signal)}
		close(p.done)
	case isGone:
		p.over = true
	}
}

// passSignal passes a signal on. If too many earlier signals are unread, it drops the signal.
func passSignal(c chan<- syscall.Signal, sig int) {
	select {
	case c <- syscall.Signal(sig):
	default:
	}
}

// Ended reports whether the command has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// inherit is called when the supervisor has died before its job has ended. It ends the job. The
// parameter killer is the signal that ended the supervisor, or 0.
func (p *Process) inherit(killer syscall.Signal) {
	if !p.hung.Load() {
		close(p.supervisorLost)
	}
	ended := p.Ended()
	p.link.takeOver(p.Group(), ended)
	if !ended {
		p.exit = job.Exit{Signal: syscall.SIGKILL}
		close(p.done)
	}
	why := ErrStart
	if killer != 0 {
		why = &KilledError{killer}
	}
	select {
	case p.started <- why: // the supervisor died before it sent any news
	default:
	}
}
