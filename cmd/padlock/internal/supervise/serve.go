package supervise

import (
	"encoding/json"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
	"github.com/padlock-go/padlock/cmd/padlock/internal/limits"
)

// ownThreads is the number of threads that the supervisor needs at the same time.
const ownThreads = 8

// nap is the longest time between two checks of a lease. Go's timers do not run during a suspend of
// the machine, so the supervisor may notice a suspend this much later.
const nap = 300 * time.Millisecond

// lateAfter is how late the supervisor may be with a check of the lease. If a check is later, the
// supervisor was stopped or had no processor time. The supervisor may then have unread messages,
// and one of them may say that the lease was renewed.
const lateAfter = 100 * time.Millisecond

// answerTime is how long the supervisor waits for an answer of the process that holds the lock. The
// supervisor asks that process if two conditions are met: a check was late (see lateAfter), and the
// lease is about to end. If no answer comes, the supervisor uses the end of the lease from the last
// message. Tests set it.
var answerTime = 500 * time.Millisecond

// server is the supervisor.
type server struct {
	spec   *jobSpec
	job    *job.Job
	orphan func(group int) // called after the front has died
	orders <-chan *order   // closed when the front is gone
	out    chan<- *news
	left   chan []Leftover // processes that the command left running

	lease  *moment // when the lock ends; nil if never
	ending bool    // the job was asked to end
	killed bool    // the kill was reported to the front
	alone  bool    // the front is gone
	late   bool    // a check was late (see lateAfter), and the front has not answered since then

	// The following points in time are as the function now returns them.
	due      time.Duration // when to check for due work again
	answerBy time.Duration // when to stop waiting for an answer of the front; 0 if the front was not asked
	killAt   time.Duration // when to kill the job; 0 if not planned
}

// serve runs a job, which is in the first message that arrives on conn. It returns when no process
// of the job is left. If the job's Leave is set, it returns when the command has ended. If the
// process that holds the lock has died, serve first calls orphan with the command's process group,
// and then ends the job.
func serve(conn io.ReadWriter, keep []*os.File, signals <-chan os.Signal, orphan func(group int)) {
	orders, first := make(chan *order), make(chan *order, 1)
	go receive(conn, first, orders)
	o, ok := <-first
	if !ok || o.Job == nil {
		return
	}
	out, sent := make(chan *news, 64), make(chan struct{})
	go transmit(conn, out, sent)
	defer func() {
		close(out)
		<-sent
	}()
	s := &server{spec: o.Job, orphan: orphan, orders: orders, out: out, left: make(chan []Leftover), lease: o.Job.Lease}
	limits.FewThreads()
	limits.KeepThreads(ownThreads)
	if s.lease != nil {
		s.lease.arrived()
		if s.lease.left() <= 0 { // this process was stopped, or took long to start
			s.sendNews(&news{Is: isLow})
			s.sendNews(&news{Is: isFailed, Errno: int(job.ErrKilled)})
			return
		}
	}
	s.start(keep)
	s.watch(signals)
}

func receive(in io.Reader, first, orders chan<- *order) {
	defer close(orders)
	messages := json.NewDecoder(in)
	for to := first; ; to = orders {
		o := &order{}
		if messages.Decode(o) != nil {
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

func transmit(out io.Writer, all <-chan *news, sent chan<- struct{}) {
	defer close(sent)
	messages := json.NewEncoder(out)
	for n := range all {
		_ = messages.Encode(n) // if the front is gone, another goroutine notices
	}
}

// sendNews sends news to the front, the process that holds the lock. If the front hangs, sendNews
// drops reports of a stop or of a signal. With all other news, sendNews waits until the front
// reads.
func (s *server) sendNews(n *news) {
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

// start begins to start the job, which can take long. The supervisor watches the front and the lease
// meanwhile.
func (s *server) start(keep []*os.File) {
	spec := job.Spec{Path: string(s.spec.Path), Args: toTexts(s.spec.Args), Env: toTexts(s.spec.Env), Leave: s.spec.Leave}
	if !s.spec.Leave {
		spec.Keep = keep
	}
	s.job = job.Start(spec)
}

// watch runs until the job is over.
func (s *server) watch(signals <-chan os.Signal) {
	timer := time.NewTimer(s.pauseNext())
	started := s.job.Started()
	var done, gone <-chan struct{} // not before the front knows that the job has started
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
				s.sendNews(&news{Is: isHeard, Signal: int(n)})
			}
		case sig := <-s.job.Stopped():
			s.sendNews(&news{Is: isStopped, Signal: int(sig)})
		case left := <-s.left:
			s.sendNews(&news{Is: isLeft, Left: left})
			s.killIn(s.spec.Grace)
		case <-timer.C:
		case <-started:
			if err := s.job.Err(); err != nil {
				errno, ok := err.(syscall.Errno)
				if !ok {
					errno = syscall.EINVAL
				}
				s.sendNews(&news{Is: isFailed, Errno: int(errno)})
				return
			}
			s.sendNews(&news{Is: isStarted, PID: s.job.Group()})
			started, done, gone = nil, s.job.Done(), s.job.Gone()
		case <-done:
			done = nil
			s.commandDone()
			if s.spec.Leave {
				s.sendNews(&news{Is: isGone})
				return
			}
		case <-gone:
			if done != nil { // both channels were ready
				s.tellDone()
			}
			s.sendNews(&news{Is: isGone})
			return
		}
		s.doDueWork()
		timer.Reset(s.pauseNext())
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
		case <-s.job.Stopped(): // discards a report that is out of date
		default:
		}
		s.job.Continue()
		s.sendNews(&news{Is: isWoken})
	case doLease:
		s.lease = o.Lease
		if o.Answer {
			s.late, s.answerBy = false, 0
		}
	case doEnd:
		s.endJob(o.Grace)
	case doKill:
		s.kill()
	}
}

// frontDied ends the job, because no process renews the lock any more.
func (s *server) frontDied() {
	s.alone = true
	if group := s.job.Group(); group != 0 { // it runs
		s.orphan(group)
	}
	s.kill()
}

// findTime is the time for finding the processes that the command left behind. They must not be
// killed before they are found, because padlock reports their names to the user. Tests set it.
var findTime = 500 * time.Millisecond

// commandDone is called when the command has ended. Unless Leave is set, it signals the processes
// that the command left behind, and plans to kill them.
func (s *server) commandDone() {
	s.tellDone()
	if !s.spec.Leave {
		s.job.EndRest(s.spec.signal(), func(pids []int) {
			select {
			case s.left <- leftovers(pids):
			case <-s.job.Gone(): // nobody reads the news any more
			}
		})
		s.killIn(s.spec.Grace + findTime) // watch may plan an earlier kill, when the processes are found
	}
}

func (s *server) tellDone() {
	e := s.job.Exit()
	s.sendNews(&news{Is: isDone, Code: e.Code, Signal: int(e.Signal)})
}

// doDueWork does all work that is due.
func (s *server) doDueWork() {
	s.late = s.late || now()-s.due > lateAfter
	if s.lease != nil {
		left := s.lease.left()
		switch {
		case left > s.spec.Grace:
			s.answerBy = 0
		case !s.waitsForAnswer(left):
			s.leaseLow(left)
		}
	}
	if s.killAt != 0 && now() >= s.killAt {
		s.kill()
	}
}

// waitsForAnswer is called when the lease is about to end. It reports whether the supervisor must
// wait for an answer of the front before it ends the job. The supervisor must wait if it was
// stopped or had no processor time, because an unread message may have renewed the lease.
func (s *server) waitsForAnswer(left time.Duration) bool {
	switch {
	case s.alone || s.killed:
		return false
	case s.answerBy != 0: // the front was asked
		return now() < s.answerBy
	case !s.late:
		return false
	}
	wait := answerTime
	if left > 0 {
		wait = min(wait, left/2) // the rest is for ending the job
	}
	s.answerBy = now() + wait
	s.sendNews(&news{Is: isLate})
	return true
}

// leaseLow is called when the lease is about to end. The time that is left is only just enough to
// end the job. leaseLow asks the job to end. If no time is left, it kills the job.
func (s *server) leaseLow(left time.Duration) {
	if !s.ending {
		s.sendNews(&news{Is: isLow})
		s.endJob(left)
	}
	if left <= 0 {
		s.kill()
	}
}

// endJob asks the job to end.
func (s *server) endJob(grace time.Duration) {
	if !s.ending {
		s.ending = true
		s.job.Signal(s.spec.signal())
		s.job.Continue() // a stopped process does not handle it
	}
	s.killIn(grace)
}

// killIn makes the supervisor kill the job after the duration d. If a kill is already planned, the
// earlier of the two times counts.
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
		s.sendNews(&news{Is: isKilled})
	}
}

// pauseNext returns the time until there is work to do, and records in s.due when that time will be
// over.
func (s *server) pauseNext() time.Duration {
	d := s.pause()
	s.due = now() + d
	return d
}

// pause returns the time until there is work to do.
func (s *server) pause() time.Duration {
	d := time.Hour
	if s.lease != nil && !s.killed {
		d = nap
		left := s.lease.left()
		if !s.ending {
			left -= s.spec.Grace
		}
		if wait := s.answerBy - now(); wait > 0 {
			left = wait
		}
		d = min(d, left)
	}
	if s.killAt != 0 {
		d = min(d, s.killAt-now(), nap)
	}
	return max(d, time.Millisecond)
}
