package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
)

// exitOutput means that the output could not be written.
const exitOutput = 74

// verbStatuses are the exit statuses of the verbs that take or release locks.
const verbStatuses = `  0    done
  75   the lock is held, or was not free in time
  79   the lock is lost: somebody else may have it
` + commonStatuses

const commonStatuses = `  64   the command line or the store's URL is wrong, or the store cannot do that
  69   the store cannot be reached, or its answer was lost
  74   the output could not be written`

// note is a message on standard error: a line of text, or a JSON object.
type note struct {
	Event string `json:"event"`
	named
	Message string         `json:"message"`
	Fence   uint64         `json:"fence,omitempty"`
	Slot    *int           `json:"slot,omitempty"`
	Seconds float64        `json:"seconds,omitempty"`
	Exit    int            `json:"exit,omitempty"`
	Holders []sampler.Hold `json:"holders,omitempty"`

	Do []string `json:"do,omitempty"` // command lines for the user to copy

	Processes []process `json:"processes,omitempty"`
}

// process is the JSON form of a process that a command left running.
type process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// say prints a note. A failure to print it is ignored, because it could not be reported.
func (a *app) say(n note) {
	if a.json {
		_ = a.print(a.stderr, n)
		return
	}
	fmt.Fprintln(a.stderr, "padlock: "+visible(n.Message))
	for _, line := range n.Do {
		fmt.Fprintln(a.stderr, "  "+visible(line))
	}
}

// print writes v as a line of JSON.
func (a *app) print(w interface{ Write([]byte) (int, error) }, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// usage returns the failure for a wrong command line.
func usage(format string, args ...any) error {
	return fail(exitUsage, "usage", "", format, args...)
}

// fail makes a failure. The parameter name is the name of the lock that the failure is about, or
// "".
func fail(status int, event, name, format string, args ...any) *failure {
	return &failure{status, note{Event: event, named: newNamed(name), Message: fmt.Sprintf(format, args...), Exit: status}}
}

// flagNames replaces the names of options at the beginning of an error by those of the flags.
var flagNames = strings.NewReplacer("HoldAtLeast is ", "--at-least is ", "HoldAtMost is ", "--at-most is ", "CoolDown is ", "--cool-down is ", "TTL is ", "--ttl is ")

// explain turns an error of the library into a failure that says what to do.
func (a *app) explain(name string, err error) *failure {
	var held *padlock.HeldError
	what := reason(err)
	switch {
	case errors.As(err, &held) && !errors.Is(err, padlock.ErrUncertain):
		return heldFailure(name, held)
	case errors.Is(err, padlock.ErrHeld):
		return heldFailure(name, &padlock.HeldError{})
	case errors.Is(err, padlock.ErrInvalid):
		return fail(exitUsage, "usage", name, "%s", flagNames.Replace(what))
	case errors.Is(err, errors.ErrUnsupported):
		return fail(exitUsage, "unsupported", name, "%s cannot do that: %s; choose another store with --store", a.place(), what)
	case errors.Is(err, padlock.ErrUncertain):
		return fail(exitUnavailable, "uncertain", name, "it is unknown whether %s was locked at %s: %s; if so, the lock is released or ends with its lease; command not run", show(name), a.place(), what)
	case errors.Is(err, padlock.ErrUnavailable):
		return fail(exitUnavailable, "unavailable", name, "%s cannot be used: %s", a.place(), what)
	}
	return fail(exitUnavailable, "error", name, "%s failed: %s", a.place(), what)
}

// unsuccessful explains why an operation on a lock failed. The parameter deed completes the message
// "NAME was not …", for example with "extended".
func (a *app) unsuccessful(name, deed string, err error) *failure {
	switch {
	case errors.Is(err, padlock.ErrUncertain):
		hint := "try again"
		if deed == "taken" || deed == "taken over" {
			hint = "if it was, it ends with its lease"
		}
		return fail(exitUnavailable, "uncertain", name, "it is unknown whether %s was %s at %s: %s; %s", show(name), deed, a.place(), reason(err), hint)
	case errors.Is(err, padlock.ErrLost):
		return fail(exitLost, "lost", name, "%s was not %s: the lock is lost, and somebody else may have it", show(name), deed)
	case errors.Is(err, padlock.ErrExpired):
		return fail(exitLost, "lost", name, "%s was not %s: the lock is lost, because its lease had run out; nobody else took it", show(name), deed)
	}
	return a.explain(name, err)
}

// guarded reports whether err means that a server has just restarted and does not grant locks yet.
func guarded(err error) bool {
	return errors.Is(err, padlock.ErrUnavailable) && strings.Contains(err.Error(), "(restart guard)")
}

// newerFormat reports whether err means that a later version of padlock has written what this one
// cannot read.
func newerFormat(err error) bool {
	return errors.Is(err, padlock.ErrUnavailable) && strings.Contains(err.Error(), "a newer padlock has ")
}

// heldFailure returns the failure that names the holders of the lock.
func heldFailure(name string, held *padlock.HeldError) *failure {
	now := time.Now()
	f := fail(exitHeld, "held", name, "%s", heldText(name, held, now))
	f.note.Holders = jsonHolds(held.Holds)
	return f
}

func heldText(name string, held *padlock.HeldError, now time.Time) string {
	if len(held.Holds) == 0 {
		return show(name) + " is held by somebody else" + endText(held.Until, now)
	}
	line := show(name) + " is " + sentence(held.Holds[0], now)
	if n := len(held.Holds) - 1; n > 0 {
		line += fmt.Sprintf(", and by %d more (padlock status %s lists them)", n, show(name))
	}
	return line
}

// remark prints a note for a person. Scripts do not get it.
func (a *app) remark(name, format string, args ...any) {
	if !a.json && isTerminal(os.Stdout) && isTerminal(os.Stderr) {
		a.say(fail(0, "remark", name, format, args...).note)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }
