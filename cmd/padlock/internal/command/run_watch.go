package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/console"
	"github.com/padlock-go/padlock/cmd/padlock/internal/job"
)

// stuckAfter is how long padlock waits for killed processes to end. Then padlock reports the
// processes that are still running.
const stuckAfter = 5 * time.Second

// watch handles all events of the command, from before its start. It returns when the command has
// ended. Without --close it returns only when the processes that the command left running have ended
// too. It returns an error if the command could not be started, or was ended before it ran.
func (f *front) watch() error {
	lost, low := f.lasting().Done(), f.process.Low()
	var gone, supervisorLost <-chan struct{} // not before Started: until then, its error tells more
	var asked <-chan struct{}
	if f.set.onAsk.sig != 0 {
		asked = padlock.Asked(f.lock.Context())
	}
	var atMost alarm
	if f.set.atMost.given {
		atMost.setIn(f.set.atMost.d)
	}
	f.process.Lease(f.remaining()) // the lock may have been renewed since the job's start
	for {
		select {
		case err := <-f.process.Started():
			if err != nil {
				return f.notStarted(err, low)
			}
			f.started()
			gone, supervisorLost = f.process.Gone(), f.process.SupervisorLost()
		case s := <-f.signals:
			f.handleSignal(s, false)
		case s := <-f.process.Heard():
			f.handleSignal(s, true)
		case s := <-f.process.Stopped():
			f.jobStopped(s)
		case <-f.renewed:
			f.process.Lease(f.remaining())
		case <-f.process.Asked():
			f.process.Answer(f.remaining())
		case <-low:
			low = nil
			f.tellLeaseLow()
		case <-lost:
			lost = nil
			low, supervisorLost = f.lastNews(low, supervisorLost) // an unread report from Low or SupervisorLost tells why the lock was lost
			f.lockOver()
		case <-supervisorLost:
			supervisorLost = nil
			f.supervisorLost()
		case <-asked:
			asked = nil
			f.holderAsked()
		case <-atMost.c:
			f.endJob(fail(exitTimeout, "timeout", f.name, "%s has run for %s (--at-most); ending it", show(f.args[0]), span(f.set.atMost.d)), f.grace)
		case left := <-f.process.Left():
			f.left.found(left)
		case <-f.left.slow.c:
			f.waitForLeft()
		case <-f.stuck.c:
			f.tellStuck()
		case <-gone:
			f.lastNews(low, supervisorLost)
			f.tellLeft()
			return nil
		}
	}
}

// started is called when the command runs.
func (f *front) started() {
	if f.terminal != nil {
		console.WorkInBackground()
		if f.terminal.interactive() {
			f.terminal.giveForeground(f.process.Group()) // if the command has already tried to read, it was stopped; see jobStopped
		}
	}
	f.verbose(0, "running %s", show(f.args[0]))
	if f.process.Blind() && !f.set.quiet {
		f.say(note{Event: "system", named: newNamed(f.name), Message: fmt.Sprintf(
			"a filter for system calls refuses prctl(PR_SET_CHILD_SUBREAPER), so processes of %s that call setsid may outlive the lock; allow it in the filter", show(f.args[0]))})
	}
}

// notStarted returns the failure of a command that does not run.
func (f *front) notStarted(err error, low <-chan struct{}) error {
	<-f.process.Gone()
	f.lastNews(low, nil)
	if f.why != nil { // padlock has ended its start
		return f.why
	}
	return cannotRun(f.args[0], err)
}

// verbose reports progress if --verbose is given.
func (f *front) verbose(took time.Duration, format string, args ...any) {
	if !f.set.verbose {
		return
	}
	n := fail(0, "progress", f.name, format, args...).note
	n.Seconds = took.Seconds()
	if f.lock != nil {
		n.Fence = f.lock.Fence()
		n.Slot = slotOf(f.lock)
	}
	f.say(n)
}

// lastNews reads news that arrived together with the end of the job.
func (f *front) lastNews(low, supervisorLost <-chan struct{}) (lowLeft, lostLeft <-chan struct{}) {
	for low != nil || supervisorLost != nil {
		select {
		case <-low:
			low = nil
			f.tellLeaseLow()
		case <-supervisorLost:
			supervisorLost = nil
			f.supervisorLost()
		default:
			return low, supervisorLost
		}
	}
	return nil, nil
}

// tellLeaseLow reports why the supervisor ends the job: the lease is about to end.
func (f *front) tellLeaseLow() {
	what := "could not be renewed in time"
	if f.set.noRenewal {
		what = "runs out (--no-renewal)"
	}
	f.endJobBecause(f.lostFailure("%s %s; ending %s", f.title(f.nextToEnd()), what, show(f.args[0])))
}

// holderAsked passes a question to the holder on to the command, which may finish early or not.
func (f *front) holderAsked() {
	q, _ := padlock.QuestionFrom(f.lock.Context())
	f.record.asked(&q)
	f.say(note{Event: "asked", named: newNamed(f.name), Message: fmt.Sprintf("%s: asked to finish early by %s; sending %s to %s", f.titles(), askedText(&q, time.Now()), &f.set.onAsk, show(f.args[0]))})
	if sig := f.set.onAsk.sig; forCommand(sig) { // its children do not expect it
		f.process.SignalCommand(sig)
	} else {
		f.process.Signal(sig)
	}
}

// lockOver is called when another process may have the lock. If the job was already asked to end,
// it is killed now.
func (f *front) lockOver() {
	if f.why != nil {
		f.killNow()
		return
	}
	cause := context.Cause(f.lasting())
	f.endJob(f.lostFailure("%s is lost: %s; ending %s", f.title(lockOfError(cause, f.name)), lossReason(cause), show(f.args[0])), min(f.grace, f.lossGrace))
}

// supervisorLost is called when another process killed the supervisor.
func (f *front) supervisorLost() {
	f.endJobBecause(fail(128+int(syscall.SIGKILL), "killed", f.name, "the supervisor of %s was killed; killing %s", show(f.args[0]), show(f.args[0])))
	f.stuck.setIn(stuckAfter)
}

// endJobBecause records and prints why the job is ended. It returns false if
// there was already a reason.
func (f *front) endJobBecause(why *failure) bool {
	if f.why != nil {
		return false
	}
	f.say(why.note)
	f.reason = why.note.Event
	f.why = &failure{status: why.status} // without the message, which was just printed
	return true
}

// endJob asks the job to end, reports the reason, and sets the time at which the job is
// killed.
func (f *front) endJob(why *failure, grace time.Duration) {
	if f.endJobBecause(why) {
		f.process.End(grace)
		f.stuck.setIn(grace + stuckAfter)
	}
}

func (f *front) killNow() {
	f.process.Kill()
	f.stuck.setIn(stuckAfter)
}

// tellStuck names processes that survive KILL. They belong to another user, or wait for a disk that
// does not respond.
func (f *front) tellStuck() {
	var rest []string
	for _, pid := range f.process.Rest() {
		rest = append(rest, fmt.Sprintf("%d (%s)", pid, show(job.Name(pid))))
	}
	f.say(note{Event: "stuck", named: newNamed(f.name), Message: fmt.Sprintf(
		"%s left processes that cannot be ended: %s; %s stays locked until they are gone", show(f.args[0]), strings.Join(rest, ", "), f.titles())})
}

// lastOfSignal says which signal was handled last, and when. The field relayed is true if the
// signal came to the supervisor, for example because the command signalled its parent. It is false
// if the signal came to this process.
type lastOfSignal struct {
	signal  os.Signal
	relayed bool
	at      time.Time
}

// Service managers and terminals send a signal to all processes, so padlock may receive it twice:
// in this process and in the supervisor. If the second one arrives within the time sameOccasion,
// the two count as one signal.

// handleSignal handles a signal and passes it on to the job.
func (f *front) handleSignal(s os.Signal, relayed bool) {
	last := f.last
	f.last = lastOfSignal{s, relayed, time.Now()}
	if last.signal == s && last.relayed != relayed && time.Since(last.at) < f.sameOccasion {
		return
	}
	sig, ok := s.(syscall.Signal)
	f.interrupted = f.interrupted || isInterrupt(sig)
	switch {
	case !ok || isPipe(s):
	case isContinue(s):
		f.resume()
	case forCommand(s):
		f.process.SignalCommand(sig)
	case f.process.Ended() && asksToEnd(s):
		f.asked = true
		f.killNow() // a second signal kills the remaining processes at once
	default: // Ctrl-Z, too: the job stops, and then jobStopped stops padlock
		f.asked = f.asked || asksToEnd(s)
		f.process.Signal(sig)
	}
}

// jobStopped is called when the command was stopped, by Ctrl-Z or because it does not have the
// terminal. After a Ctrl-Z the shell must notice the stop.
func (f *front) jobStopped(sig syscall.Signal) {
	switch {
	case f.terminal == nil || !byTerminal(sig):
	case wantsTerminal(sig) && f.terminal.giveForeground(f.process.Group()):
		f.process.Continue()
	default:
		f.pause()
	}
}

// pause stops padlock together with its job until another process wakes it. Without a terminal
// nobody would wake padlock, so it continues to renew the lock instead.
func (f *front) pause() {
	if f.terminal == nil {
		return
	}
	f.terminal.stopSelf()
	for s := range f.signals { // stopSelf may return before the stop, so wait for SIGCONT
		if isContinue(s) {
			break
		}
		f.handleSignal(s, false)
	}
	f.resume() // before any other report of a stopped job is handled
}

// resume wakes the job, unless the lock ended during the pause.
func (f *front) resume() {
	if f.expired() {
		f.killNow()
		f.lockOver()
		return
	}
	if f.terminal != nil && f.terminal.interactive() {
		f.terminal.giveForeground(f.process.Group())
	}
	f.process.Continue()
}
