// Package supervise runs a job under a process of its own, the supervisor, so
// that the job outlives neither the process that holds the lock, the front, nor
// the lock: when either of the two dies, however that happens, the other ends
// the job. The supervisor keeps the end of the lease too, so that a front that
// hangs or is stopped makes no difference, and holds a copy of the file that
// carries the lock until nothing is left of the job.
//
// On Windows, where the kernel ends the job with the process that has its
// handle, the supervisor is a part of the front.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// Forever is the lease of a lock that has none.
const Forever time.Duration = 1<<63 - 1

// ErrStart means that the supervisor could not be started.
var ErrStart = errors.New("the supervisor of the command cannot be started")

// Spec describes the job and the lease.
type Spec struct {
	Title  string   // the supervisor's name in lists of processes
	Path   string   // of the program
	Args   []string // the name it is called by, and its arguments
	Env    []string
	Keep   *os.File       // open in the supervisor until nothing is left of the job; may be nil
	Pass   bool           // the command inherits Keep
	Leave  bool           // leave the processes alone that the command leaves running
	Signal syscall.Signal // that ends the command
	Grace  time.Duration  // from Signal to KILL
	Lease  time.Duration  // until when the job must have been killed, or Forever
}

// Process is a job under its supervisor. Its methods are safe for concurrent
// use.
type Process struct {
	link           link
	mu             sync.Mutex // of sending
	conn           io.Closer
	out            *json.Encoder
	group          atomic.Int64
	exit           job.Exit
	killed         atomic.Bool
	waking         atomic.Int64 // calls of Continue that are not carried out yet
	hung           atomic.Bool  // the front killed the supervisor, which did not answer
	over           bool         // nothing is left, the supervisor said
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

// link is the front's side of its supervisor's process.
type link interface {
	join()                          // waits until it is gone, with all that it had open
	kill() error                    // ends it, and it alone; after join nothing
	takeOver(group int, ended bool) // ends what it leaves running; called after join; ended: the command had ended
	rest() []int                    // the living processes of the job, as far as they can be known
	open() (io.ReadWriteCloser, error)
}

// Start starts the supervisor and, under it, the job. The error is that of exec, or ErrStart; then
// nothing runs.
func Start(s Spec) (*Process, error) {
	p := &Process{
		started: make(chan error, 1), done: make(chan struct{}), gone: make(chan struct{}), supervisorLost: make(chan struct{}), low: make(chan struct{}),
		stopped: make(chan syscall.Signal, 16), heard: make(chan syscall.Signal, 16), asked: make(chan struct{}, 1), left: make(chan []Leftover, 16), link: newLink(&s),
	}
	conn, err := p.link.open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	p.conn, p.out = conn, json.NewEncoder(conn)
	go p.listen(json.NewDecoder(conn))
	p.send(&order{Do: doStart, Job: newJobSpec(&s)})
	if err := <-p.started; err != nil {
		<-p.gone
		return nil, err
	}
	return p, nil
}

// Group is the process group of the command.
func (p *Process) Group() int { return int(p.group.Load()) }

// Done is closed when the command itself has ended, and with Leave the
// supervisor too; then Exit is known.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the command ended. It is the zero Exit before Done.
func (p *Process) Exit() job.Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return job.Exit{}
	}
}

// Gone is closed when nothing is left of the supervisor and of the job (with Leave, of the
// command).
func (p *Process) Gone() <-chan struct{} { return p.gone }

// SupervisorLost is closed when another process has killed the supervisor. The rest of the job is
// then killed.
func (p *Process) SupervisorLost() <-chan struct{} { return p.supervisorLost }

// Low is closed when the supervisor has begun to end the job because the lease ends.
func (p *Process) Low() <-chan struct{} { return p.low }

// Stopped reports that the command was stopped, and by which signal.
func (p *Process) Stopped() <-chan syscall.Signal { return p.stopped }

// Heard reports signals that were sent to the supervisor, which the command sees as its parent.
func (p *Process) Heard() <-chan syscall.Signal { return p.heard }

// Rest lists the living processes of the job.
func (p *Process) Rest() []int { return p.link.rest() }

// Left reports the processes that the command has left running, before padlock ends them.
func (p *Process) Left() <-chan []Leftover { return p.left }

// Signal sends sig to the command and to those in its process group.
func (p *Process) Signal(sig syscall.Signal) { p.send(&order{Do: doSignal, Signal: int(sig)}) }

// SignalCommand sends sig to the command alone.
func (p *Process) SignalCommand(sig syscall.Signal) {
	p.send(&order{Do: doSignalCommand, Signal: int(sig)})
}

// Continue wakes stopped processes. A stop that nobody has read yet is no longer reported.
func (p *Process) Continue() {
	p.waking.Add(1)
	for {
		select {
		case <-p.stopped:
		default:
			p.send(&order{Do: doContinue})
			return
		}
	}
}

// Lease sets how long the lock is good for from now on.
func (p *Process) Lease(left time.Duration) { p.send(&order{Do: doLease, Lease: until(left)}) }

// Asked means that the supervisor was stopped or starved, and asks how long the lock is good for:
// call Answer.
func (p *Process) Asked() <-chan struct{} { return p.asked }

// Answer is Lease, in answer to Asked.
func (p *Process) Answer(left time.Duration) {
	p.send(&order{Do: doLease, Lease: until(left), Answer: true})
}

// End sends Spec.Signal to the job, and KILL when grace has passed.
func (p *Process) End(grace time.Duration) {
	p.send(&order{Do: doEnd, Grace: grace})
	p.expectKill(grace)
}

// Kill kills the job, including processes that appear later.
func (p *Process) Kill() {
	p.send(&order{Do: doKill})
	p.expectKill(0)
}

// slack is how late a supervisor may report that it has killed the job before it counts as hung.
const slack = 400 * time.Millisecond

// expectKill kills a supervisor that hangs, and with it the job.
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

// send sends an order to the supervisor. Another goroutine notices if the supervisor is gone.
func (p *Process) send(o *order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(o)
}

// listen reads the supervisor's news, and takes over when the supervisor has died.
func (p *Process) listen(in *json.Decoder) {
	for {
		var n news
		if in.Decode(&n) != nil {
			break
		}
		p.hear(&n)
	}
	p.link.join()
	_ = p.conn.Close()
	if !p.over {
		p.inherit()
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
			tell(p.stopped, n.Signal)
		}
	case isWoken:
		p.waking.Add(-1)
	case isHeard:
		tell(p.heard, n.Signal)
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
		default: // there are many more
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

// tell passes a signal on, unless nobody has read the earlier ones.
func tell(c chan<- syscall.Signal, sig int) {
	select {
	case c <- syscall.Signal(sig):
	default:
	}
}

func (p *Process) commandEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// inherit is called when the supervisor has died before its job.
func (p *Process) inherit() {
	if !p.hung.Load() {
		close(p.supervisorLost)
	}
	ended := p.commandEnded()
	p.link.takeOver(p.Group(), ended)
	if !ended {
		p.exit = job.Exit{Signal: syscall.SIGKILL}
		close(p.done)
	}
	select {
	case p.started <- ErrStart: // before it could say anything
	default:
	}
}
