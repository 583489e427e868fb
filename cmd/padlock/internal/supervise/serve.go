package supervise

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
	"github.com/padlock-go/padlock/cmd/padlock/internal/limits"
)

// ownThreads is the number of threads that the supervisor needs at once.
const ownThreads = 8

// Threads is the number of processes and threads that Start needs: the supervisor's, those of a Go
// program that starts, and the command.
const Threads = ownThreads + 7 + 1

// nap is the longest time that a suspend goes unnoticed while there is a lease. Go's timers stand
// still during a suspend.
const nap = 300 * time.Millisecond

// lateAfter is how late a supervisor may look at the lease. If it is later, it was stopped or
// starved, and the end of the lease that it knows counts as old.
const lateAfter = 100 * time.Millisecond

// answerTime is how long such a supervisor waits for the front's answer before it acts on the end
// of the lease that it knows.
var answerTime = 500 * time.Millisecond

// server is the supervisor.
type server struct {
	spec   *jobSpec
	job    *job.Job
	orphan func(group int) // called when the front has died
	orders <-chan *order   // closed when the front is gone
	out    chan<- *news
	left   chan []Leftover // that the command has left running

	lease  *moment       // when the lock ends; nil if never
	due    time.Duration // the time of the next look, on its own clock
	late   bool          // it was, since the front answered last
	asked  time.Duration // until when the front may answer; 0: it was not asked
	ending bool          // the job was asked to end
	killAt time.Duration // on our clock; 0 if that is not planned
	killed bool          // said so
	alone  bool          // the front is gone
}

// serve runs the job of the first order until nothing is left of it or, with Leave, until the
// command has ended. If the front has died, it calls orphan with the command's process group before
// it ends the job.
func serve(conn io.ReadWriter, keep *os.File, signals <-chan os.Signal, orphan func(group int)) {
	orders, first := make(chan *order), make(chan *order, 1)
	go receive(json.NewDecoder(conn), first, orders)
	o, ok := <-first
	if !ok || o.Job == nil {
		return
	}
	out, sent := make(chan *news, 64), make(chan struct{})
	go transmit(json.NewEncoder(conn), out, sent)
	defer func() {
		close(out)
		<-sent
	}()
	s := &server{spec: o.Job, orphan: orphan, orders: orders, out: out, left: make(chan []Leftover), lease: o.Job.Lease}
	err := errors.Join(limits.Prepare(0), limits.KeepThreads(ownThreads))
	if err == nil {
		err = s.start(keep)
	}
	if errors.Is(err, limits.ErrThreads) {
		err = syscall.EAGAIN
	}
	if err != nil {
		errno, ok := err.(syscall.Errno)
		if !ok {
			errno = syscall.EINVAL
		}
		s.tell(&news{Is: isFailed, Errno: int(errno)})
		return
	}
	s.tell(&news{Is: isStarted, PID: s.job.Group()})
	s.watch(signals)
	s.tell(&news{Is: isGone})
}

func receive(in *json.Decoder, first, orders chan<- *order) {
	defer close(orders)
	for to := first; ; to = orders {
		o := &order{}
		if in.Decode(o) != nil {
			if to == first {
				close(first)
			}
			return
		}
		if o.Lease != nil {
			o.Lease.arrived()
		}
		to <- o
	}
}

func transmit(out *json.Encoder, all <-chan *news, sent chan<- struct{}) {
	defer close(sent)
	for n := range all {
		_ = out.Encode(n) // another goroutine notices if the front is gone
	}
}

// tell does not wait for a front that hangs. The front then misses at most that a command was
// stopped and woken many times.
func (s *server) tell(n *news) {
	switch {
	case s.alone:
	case n.Is == isStopped || n.Is == isHeard:
		select {
		case s.out <- n:
		default:
		}
	default:
		s.out <- n
	}
}

func (s *server) start(keep *os.File) (err error) {
	spec := job.Spec{Path: string(s.spec.Path), Args: allStrings(s.spec.Args), Env: allStrings(s.spec.Env), Leave: s.spec.Leave}
	if s.spec.Pass {
		spec.Keep = keep
	}
	if s.lease != nil {
		s.lease.arrived()
	}
	s.job, err = job.Start(spec)
	return err
}

// watch returns when the job is over.
func (s *server) watch(signals <-chan os.Signal) {
	timer := time.NewTimer(s.rest())
	done := s.job.Done()
	for {
		select {
		case o, ok := <-s.orders:
			if !ok {
				s.orders = nil
				s.frontDied()
				break
			}
			s.obey(o)
		case sig := <-signals:
			if n, ok := sig.(syscall.Signal); ok {
				s.tell(&news{Is: isHeard, Signal: int(n)})
			}
		case sig := <-s.job.Stopped():
			s.tell(&news{Is: isStopped, Signal: int(sig)})
		case left := <-s.left:
			s.tell(&news{Is: isLeft, Left: left})
		case <-timer.C:
		case <-done:
			done = nil
			s.commandDone()
			if s.spec.Leave {
				return
			}
		case <-s.job.Gone():
			if done != nil { // both were ready
				s.tellDone()
			}
			return
		}
		s.look()
		timer.Reset(s.rest())
	}
}

func (s *server) obey(o *order) {
	switch o.Do {
	case doSignal:
		s.job.Signal(syscall.Signal(o.Signal))
	case doSignalCommand:
		s.job.SignalCommand(syscall.Signal(o.Signal))
	case doContinue:
		select {
		case <-s.job.Stopped(): // old news
		default:
		}
		s.job.Continue()
		s.tell(&news{Is: isWoken})
	case doLease:
		s.lease = o.Lease
		if o.Answer {
			s.late, s.asked = false, 0
		}
	case doEnd:
		s.end(o.Grace)
	case doKill:
		s.kill()
	}
}

// frontDied ends the job, because nobody renews the lock any more.
func (s *server) frontDied() {
	s.alone = true
	s.orphan(s.job.Group())
	s.kill()
}

// commandDone begins to end the processes that the command has left behind.
func (s *server) commandDone() {
	s.tellDone()
	if !s.spec.Leave {
		s.job.EndRest(s.spec.signal(), func(pids []int) {
			select {
			case s.left <- leftovers(pids):
			case <-s.job.Gone(): // there is no reader any more
			}
		})
		s.killIn(s.spec.Grace)
	}
}

func (s *server) tellDone() {
	e := s.job.Exit()
	s.tell(&news{Is: isDone, Code: e.Code, Signal: int(e.Signal)})
}

// look does the work that is due.
func (s *server) look() {
	s.late = s.late || now()-s.due > lateAfter
	if s.lease != nil {
		left := s.lease.left()
		switch {
		case left > s.spec.Grace:
			s.asked = 0
		case !s.waitsForAnswer(left):
			s.leaseLow(left)
		}
	}
	if s.killAt != 0 && now() >= s.killAt {
		s.kill()
	}
}

// waitsForAnswer reports whether the lease may have a later end than is known here. A supervisor
// that was stopped or starved has not read the front's messages yet. So it asks the front, and acts
// on the answer, or on the end that it knows if no answer comes.
//
//	late | asked       | the supervisor
//	no   | no          | acts on the end that it knows
//	yes  | no          | asks, and waits
//	yes  | in time     | waits
//	yes  | no reply    | acts on the end that it knows
//
// It waits past the end of the lease only if that is over already.
func (s *server) waitsForAnswer(left time.Duration) bool {
	switch {
	case s.alone || s.killed:
		return false
	case s.asked != 0:
		return now() < s.asked
	case !s.late:
		return false
	}
	wait := answerTime
	if left > 0 {
		wait = min(wait, left/2)
	}
	s.asked = now() + wait
	s.tell(&news{Is: isLate})
	return true
}

// leaseLow ends the job, because that needs the rest of the lease.
func (s *server) leaseLow(left time.Duration) {
	if !s.ending {
		s.tell(&news{Is: isLow})
		s.end(left)
	}
	if left <= 0 {
		s.kill()
	}
}

// end asks the job to end.
func (s *server) end(grace time.Duration) {
	if !s.ending {
		s.ending = true
		s.job.Signal(s.spec.signal())
		s.job.Continue() // a stopped process does not handle it
	}
	s.killIn(grace)
}

// killIn plans to kill the job. The earlier of two times counts.
func (s *server) killIn(d time.Duration) {
	if at := now() + max(d, 1); s.killAt == 0 || at < s.killAt {
		s.killAt = at
	}
}

func (s *server) kill() {
	s.killAt = 0
	s.job.Kill()
	if !s.killed {
		s.killed = true
		s.tell(&news{Is: isKilled})
	}
}

// rest is pause, and notes when the pause is over.
func (s *server) rest() time.Duration {
	d := s.pause()
	s.due = now() + d
	return d
}

// pause is the time until there is work to do.
func (s *server) pause() time.Duration {
	d := time.Hour
	if s.lease != nil && !s.killed {
		d = nap
		left := s.lease.left()
		if !s.ending {
			left -= s.spec.Grace
		}
		if s.asked != 0 {
			left = s.asked - now()
		}
		d = min(d, left)
	}
	if s.killAt != 0 {
		d = min(d, s.killAt-now(), nap)
	}
	return max(d, time.Millisecond)
}
