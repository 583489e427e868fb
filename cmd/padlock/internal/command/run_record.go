package command

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
)

// history returns the history of the store, which is kept on this machine and in the store. If the
// store is not open (nil), it has only the part on this machine. If the user has no directory for
// data, it has only the part in the store.
func (a *app) history(store driver.Store) *history.Log {
	dir, err := a.historyDir()
	if err != nil {
		dir = ""
	}
	return history.Open(dir, a.placeLabel(), store) // the built-in store has its own history in the same directory
}

// recording writes one run into the history, for --record. Without --record it is nil, and its
// methods do nothing. The history never changes the result of a run.
type recording struct {
	w     *history.Writer
	run   history.Run
	begun time.Time // when the wait for the lock began

	patience time.Duration
}

// startRecording is called before the lock is taken. The parameter is nil if the store could not be
// opened.
func (f *front) startRecording(store driver.Store) {
	if !f.set.record {
		return
	}
	host, _ := os.Hostname()
	f.record = &recording{w: f.history(store).Writer(), begun: time.Now(), patience: f.recordPatience, run: history.Run{
		Name: f.name, Host: host[:min(len(host), driver.MaxHost)], PID: os.Getpid(), Label: f.set.label, Slot: -1,
	}}
}

// acquired is called when the lock is taken, and records the start of the run in the background.
func (r *recording) acquired(lock *padlock.Lock) {
	if r == nil {
		return
	}
	r.run.Start, r.run.Fence, r.run.Slot, r.run.Shared = time.Now(), lock.Fence(), lock.Slot(), lock.Shared()
	r.run.Waited = r.run.Start.Sub(r.begun)
	r.run.ID = history.NewID(r.run.Start, false)
	r.w.Put(r.run)
}

// asked notes who asked the holder to finish early. The record of the end has it.
func (r *recording) asked(q *padlock.Question) {
	if r != nil {
		r.run.Asked, r.run.AskedBy = time.Now(), driver.Holder{Host: q.By.Host, PID: q.By.PID, Label: q.Reason}
	}
}

// recordRunEnd records the end of a run. status is the exit status of padlock.
func (r *recording) recordRunEnd(ended time.Time, status int, signal, reason string) error {
	if r == nil {
		return nil
	}
	ended = r.run.Start.Add(ended.Sub(r.run.Start)) // so that a clock that was set meanwhile does not change how long it took
	r.run.End, r.run.Exit, r.run.Signal, r.run.Reason = ended, status, signal, reason
	r.w.Put(r.run)
	return r.wait()
}

// recordSkipped writes this run into the history. The command was not run, because of err.
func (r *recording) recordSkipped(status int, reason string, err error) error {
	if r == nil {
		return nil
	}
	r.run.Skipped, r.run.Start, r.run.Exit, r.run.Reason = true, time.Now(), status, reason
	r.run.Waited = r.run.Start.Sub(r.begun)
	r.run.ID = history.NewID(r.run.Start, true)
	var held *padlock.HeldError
	if errors.As(err, &held) {
		for _, h := range held.Holds[:min(len(held.Holds), history.MaxBy)] {
			r.run.By = append(r.run.By, h.Holder)
		}
	}
	r.w.Put(r.run)
	return r.wait()
}

func (r *recording) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	return r.w.Wait(ctx)
}

// recordSkip writes this run into the history although its command is not run. The first argument
// is the failure with which padlock ends. The second argument is the library's error, or nil if the
// library returned none.
func (f *front) recordSkip(why, err error) {
	var end *failure
	if f.record == nil || !errors.As(why, &end) {
		return
	}
	word := end.note.Event
	if word == "" { // -q hides the message
		word = f.app.explain(f.name, err).note.Event
	}
	f.unrecorded(f.record.recordSkipped(end.status, word, err))
}

// recordEnd records that the job ended at the given time. If the lock could not be released
// properly, releaseFailure says why. Otherwise releaseFailure is nil.
func (f *front) recordEnd(ended time.Time, releaseFailure *failure) {
	exit := f.process.Exit()
	status, word, signal := exit.Status(), f.reason, ""
	switch {
	case f.why != nil:
		status = f.why.status
	case releaseFailure != nil:
		status, word = releaseFailure.status, releaseFailure.note.Event
	}
	if exit.Signal != 0 {
		signal = (&signalFlag{exit.Signal}).String()
	}
	f.unrecorded(f.record.recordRunEnd(ended, status, signal, word))
}

// recordMissing records that the command was not found. The record is kept on this machine only.
func (f *front) recordMissing(why *failure) {
	if f.startRecording(nil); f.record != nil {
		f.record.run.Start = f.record.begun
		f.record.run.ID = history.NewID(f.record.begun, false)
		f.unrecorded(f.record.recordRunEnd(time.Now(), why.status, "", cmp.Or(why.note.Event, f.reason)))
	}
}

// recordFailedStart records a command that could not be started.
func (f *front) recordFailedStart(err error) {
	var why *failure
	if f.record != nil && errors.As(err, &why) {
		f.unrecorded(f.record.recordRunEnd(time.Now(), why.status, "", cmp.Or(why.note.Event, f.reason)))
	}
}

// unrecorded reports that the history could not be written.
func (f *front) unrecorded(err error) {
	if err == nil || f.set.quiet {
		return
	}
	what := reason(err)
	if errors.Is(err, context.DeadlineExceeded) {
		what = "there was no answer within " + span(f.recordPatience)
	}
	f.say(note{Event: "unrecorded", named: newNamed(f.name), Message: "the history of " + show(f.name) + " could not be written: " + what})
}
