package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/console"
	"github.com/padlock-go/padlock/cmd/padlock/internal/limits"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/observe/sampler"
)

// front is the state of one "padlock run". The process holds the lock, and handles the terminal and
// the signals. It ends the job before another process can get the lock.
type front struct {
	*app
	set  *runFlags
	name string
	args []string // the command and its arguments
	path string   // path of the command's program

	locker   *padlock.Locker
	lock     *padlock.Lock  // the lock on the name of the run
	all      *padlock.Locks // with --also: the locks on all names; otherwise nil
	grace    time.Duration
	signals  chan os.Signal
	process  *supervise.Process
	terminal *terminal     // nil if there is none
	renewed  chan struct{} // signals that the lease was renewed

	why   *failure  // the first reason for which padlock ends the job
	stuck alarm     // the time to report processes that are still running
	left  leftovers // the processes that the command left running
	asked bool      // padlock got a signal to end the job

	begun     time.Time   // when padlock began to wait for the lock
	contended chan string // gets the name of a lock that another process holds
	own       bool        // the holder of the lock has started this process; see ownLock

	record  *recording // with --record; otherwise nil
	reason  string     // for the history: the Event of the failure that ended the job
	refusal error      // for the history: the library's error, if the lock was not taken

	unconfirmed bool         // the store did not confirm the release
	interrupted bool         // padlock itself was interrupted, and not only the command
	last        lastOfSignal // the last signal that was handled
}

// ownThreads is the number of threads that the front needs at the same time. They are started
// early, so that padlock survives a job that uses up all processes of its user.
const ownThreads = 10

// threads returns the number of threads that the front needs. The history needs one for each of its
// two places, so that neither waits for the other.
func (f *front) threads() int {
	if f.set.record {
		return ownThreads + 2
	}
	return ownThreads
}

func (f *front) run() error {
	limits.FewThreads()
	var err error
	if f.locker, err = f.app.locker(context.Background(), f.name, padlock.Observe(padlock.ObserverFunc(f.event))); err != nil {
		f.startRecording(nil)
		f.recordSkip(err, nil)
		return err
	}
	defer f.closeFront()
	f.startRecording(f.app.opened)
	if f.grace, err = f.set.grace(f.locker); err != nil {
		return err
	}
	f.signals = make(chan os.Signal, 64)
	console.Catch(f.signals, console.FromStart)
	if err := f.awaitLock(); err != nil {
		f.recordSkip(err, f.refusal)
		return err
	}
	f.record.acquired(f.lock)
	if err = f.canBeAsked(); err == nil {
		err = f.start()
	}
	if err == nil {
		err = f.watch()
	}
	if err != nil {
		f.release()
		f.recordFailedStart(err)
		return err
	}
	ended := time.Now()
	had := f.terminal != nil && f.terminal.takeBack()
	lost := f.release()
	f.recordEnd(ended, lost)
	if had && !f.interrupted && isInterrupt(f.process.Exit().Signal) {
		f.closeFront()
		interruptGroup()
	}
	switch {
	case f.why != nil:
		return f.why
	case lost != nil:
		return lost
	}
	f.status = f.process.Exit().Status()
	f.ambiguous()
	return nil
}

// canBeAsked returns a failure if --on-ask is given, and the store cannot keep questions.
func (f *front) canBeAsked() error {
	if f.set.onAsk.sig != 0 && padlock.Asked(f.lock.Context()) == nil {
		return fail(exitUsage, "unsupported", f.name, "--on-ask: %s cannot keep questions to a holder; command not run", f.place())
	}
	return nil
}

// Some exit statuses have a meaning for padlock, such as "the lock is held". If the command itself
// exited with such a status, this method prints a warning, so that the user does not misunderstand
// the status.
func (f *front) ambiguous() {
	flag, meaning := "-E", "the lock is held"
	switch f.status {
	case 0:
		return
	case int(f.set.lost):
		flag, meaning = "--lost-exit-code", "the lock was lost"
	case int(f.set.conflict):
	default:
		return
	}
	n := fail(f.status, "ambiguous", f.name, "%s ran and itself exited with %d, which padlock uses for \"%s\"; %s chooses another status for that", show(f.args[0]), f.status, meaning, flag).note
	f.say(n)
}

// awaitLock waits for the lock, or for a signal that ends the wait.
func (f *front) awaitLock() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.begun = time.Now()
	result := make(chan error, 1)
	go func() { result <- f.retryAcquire(ctx) }()
	var interrupt os.Signal
	for {
		select {
		case s := <-f.signals:
			if interrupt == nil && asksToEnd(s) {
				interrupt = s
				cancel()
			}
		case name := <-f.contended:
			if f.mayWait() && f.ownLock(name) {
				cancel()
			}
		case err := <-result:
			if interrupt != nil {
				return f.gaveUp(interrupt, err)
			}
			if f.refusal = err; err != nil {
				return f.explainRefusal(err)
			}
			took := time.Since(f.begun)
			f.verbose(took, "acquired %s after %s", f.titles(), span(took))
			return nil
		}
	}
}

// mayWait reports whether padlock waits for the lock.
func (f *front) mayWait() bool {
	return !f.set.nonblock && (!f.set.wait.given || f.set.wait.d > 0)
}

// tellsWait reports whether a note says for what padlock waits. Without --verbose it is for a person
// at a terminal only, because cron would mail it.
func (f *front) tellsWait() bool {
	return f.set.verbose || atTerminal() && !f.json && !f.set.quiet
}

// guardPause is the pause between two requests to a server that has restarted and grants no locks
// yet.
const guardPause = time.Second

// retryAcquire gets the lock. A server that has just restarted may not grant locks yet. Then
// retryAcquire repeats the request until the server grants locks again.
func (f *front) retryAcquire(ctx context.Context) (err error) {
	for told := false; ; told = true {
		opts := f.set.options(f.grace)
		left := time.Hour
		if f.mayWait() && f.set.wait.given {
			left = f.set.wait.d - time.Since(f.begun)
			opts = append(opts, padlock.Wait(max(left, 0)))
		}
		err = f.acquireOnce(ctx, opts)
		if err == nil || !f.mayWait() || left <= 0 || !guarded(err) {
			return err
		}
		if !told && f.tellsWait() {
			f.say(note{Event: "waiting", named: newNamed(f.name), Message: "waiting: " + reason(err)})
		}
		select {
		case <-time.After(min(guardPause, left)):
		case <-ctx.Done():
			return err
		}
	}
}

// gaveUp returns the error of a wait that a signal has ended.
func (f *front) gaveUp(s os.Signal, err error) error {
	if err == nil {
		f.release()
	}
	status := 128
	if n, ok := s.(syscall.Signal); ok {
		status += int(n)
	}
	return fail(status, "interrupted", f.name, "%s while waiting for %s; command not run", s, show(f.name))
}

// explainRefusal explains why padlock did not get the lock.
func (f *front) explainRefusal(err error) error {
	if errors.Is(err, newest.ErrSuperseded) {
		return fail(exitSuperseded, "superseded", f.name, "a newer run has got %s, so this one was dropped; command not run", show(f.name))
	}
	why := f.explain(lockOfError(err, f.name), err)
	took := time.Since(f.begun)
	own := f.own || why.status == exitHeld && f.ownLock(why.note.Name)
	switch {
	case own && f.mayWait() && f.set.slots > 1:
		why.note.Message = fmt.Sprintf("a slot of %s is held by the padlock run that runs this command, so waiting for another one may never end", show(f.name))
	case own && f.mayWait():
		why.note.Message = fmt.Sprintf("%s is held by the padlock run that runs this command, so waiting for it would never end", show(why.note.Name))
	case why.status != exitHeld:
		return why
	case f.set.quiet:
		return &failure{status: int(f.set.conflict)}
	case own && f.set.slots <= 1:
		why.note.Message = fmt.Sprintf("%s is held by the padlock run that runs this command", show(why.note.Name))
	case own:
	case f.mayWait() && took < f.set.wait.d:
		why.note.Message += "; not waiting for that (--wait-policy skip)"
	case f.mayWait():
		why = f.heldNow(why)
		why.note.Message += "; gave up after " + span(f.set.wait.d)
	}
	why.status, why.note.Exit = int(f.set.conflict), int(f.set.conflict)
	why.note.Message += "; command not run"
	return why
}

// heldNow adds the current holder to a failure.
func (f *front) heldNow(why *failure) *failure {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	name := why.note.Name
	n, err := sampler.Look(ctx, f.locker, name, int(f.set.slots))
	blocking := n.Blocking(n.Slots)
	if err != nil || len(blocking) == 0 {
		return why
	}
	return f.heldFailure(name, heldBy(blocking))
}

// start begins to start the command under the lock. It runs when f.process.Started says so.
func (f *front) start() error {
	spec, err := f.spec()
	if err != nil {
		return err
	}
	for _, file := range spec.Keep {
		defer file.Close()
	}
	if f.expired() {
		return f.lostFailure("%s was lost before %s could start; command not run", f.title(f.nextToEnd()), show(f.args[0]))
	}
	console.Catch(f.signals, whileRunning)
	f.terminal = findTerminal()
	// This run reserves its threads only now that it has the lock. Many runs may be waiting for the
	// lock, and they must not reserve threads for commands that they do not start yet.
	limits.KeepThreads(f.threads())
	if f.process, err = supervise.Start(spec); err != nil {
		return cannotRun(f.args[0], err)
	}
	return nil
}

func (f *front) spec() (supervise.Spec, error) {
	spec := supervise.Spec{
		Title: f.name, Path: f.path, Args: f.args, Leave: f.set.leave,
		Signal: f.set.signal.sig, Grace: f.grace, Lease: f.remaining,
	}
	var err error
	if spec.Env, err = f.environ(); err != nil {
		return spec, err
	}
	spec.Keep, err = f.files()
	return spec, err
}

// release releases the lock. It returns a failure if the lock was lost while the command ran.
func (f *front) release() *failure {
	patience := f.closePatience
	if f.expired() {
		patience = min(patience, lateRelease) // the lock has already ended
	}
	released := make(chan error, 1)
	go func() { released <- errors.Join(f.check(), f.releaseLocks()) }()
	var err error
	select {
	case err = <-released:
	case <-time.After(patience):
		err = errNoAnswer
	}
	switch {
	case err == nil:
		f.verbose(0, "released %s", f.titles())
	case errors.Is(err, padlock.ErrLost), errors.Is(err, padlock.ErrExpired), errors.Is(err, padlock.ErrMaxHold):
		return f.lostFailure("%s was lost before %s had ended: %s", f.title(lockOfError(err, f.name)), show(f.args[0]), lossReason(err))
	case f.why != nil && f.expired(): // this was already reported
		f.unconfirmed = true
	default:
		f.unconfirmed = true
		f.say(note{Event: "unconfirmed", named: newNamed(lockOfError(err, f.name)), Message: f.title(lockOfError(err, f.name)) + " may stay locked until its lease ends: " + f.place() + " did not confirm the release: " + reason(err)})
	}
	return nil
}

// lateRelease is the time limit for the release of a lock that has already ended.
const lateRelease = 500 * time.Millisecond

var errNoAnswer = errors.New("there was no answer in time")

// check asks a store without leases whether the lock was held until now: the file of the lock may
// have been removed or replaced. Stores with leases report a lost lock at the release.
func (f *front) check() error {
	if f.locker.Guarantees().Lease {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.closePatience)
	defer cancel()
	if err := f.checkLocks(ctx); errors.Is(err, padlock.ErrLost) {
		return err
	}
	return nil
}

// closeFront waits for background work. If the store did not answer the release in time, closeFront
// waits for the store only briefly.
func (f *front) closeFront() {
	if f.unconfirmed {
		f.closePatience = min(f.closePatience, 500*time.Millisecond)
	}
	f.app.close(f.locker)
}

// event gets the events of the Locker.
func (f *front) event(_ context.Context, e padlock.Event) {
	var held *padlock.HeldError
	if e.Name != f.name && !slices.Contains(f.set.also, e.Name) {
		return // of a lock beside them; see package newest
	}
	if e.Kind == padlock.EventRenewed {
		select {
		case f.renewed <- struct{}{}:
		default: // a notice is already pending
		}
	}
	if e.Kind == padlock.EventContended {
		select {
		case f.contended <- e.Name:
		default:
		}
	}
	if e.Kind == padlock.EventContended && f.mayWait() && errors.As(e.Err, &held) && f.tellsWait() {
		f.say(note{Event: "waiting", named: newNamed(e.Name), Message: "waiting: " + f.set.heldText(e.Name, held, time.Now())})
	}
}

// environ returns the environment of the command. The PADLOCK_ variables of this lock replace those
// of an outer padlock run.
func (f *front) environ() ([]string, error) {
	vars, err := f.variables()
	if err != nil {
		return nil, err
	}
	var env []string
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); !ownVariables[key] {
			env = append(env, v)
		}
	}
	return append(env, vars...), nil
}
