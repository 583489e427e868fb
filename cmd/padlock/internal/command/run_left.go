package command

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

const (
	// slowAfter is how long leftover processes may take to end before a message says that padlock
	// waits for them.
	slowAfter = time.Second
	// leftShown is how many leftover processes a message names.
	leftShown = 3
)

// leftovers describes the processes that the command left running.
type leftovers struct {
	all  []supervise.Leftover
	slow alarm
}

func (l *leftovers) found(more []supervise.Leftover) {
	l.all = append(l.all, more...)
	sort.Slice(l.all, func(i, j int) bool { return l.all[i].PID < l.all[j].PID })
	l.slow.setIn(slowAfter)
}

// processNames lists the processes. It returns "" on systems that do not report names.
func (l *leftovers) processNames() string {
	var names []string
	for _, p := range l.all[:min(len(l.all), leftShown)] {
		if p.Name == "?" {
			return ""
		}
		names = append(names, fmt.Sprintf("%d %s", p.PID, show(p.Name)))
	}
	text := strings.Join(names, ", ")
	if n := len(l.all) - leftShown; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// sentence returns a text that names the processes that the given command has left running. It also
// returns their pronoun: "it" or "them".
func (l *leftovers) sentence(command string) (text, pronoun string) {
	names := l.processNames()
	switch {
	case names == "":
		return show(command) + " left processes running", "them"
	case len(l.all) == 1:
		return fmt.Sprintf("%s left 1 process running (%s)", show(command), names), "it"
	}
	return fmt.Sprintf("%s left %d processes running (%s)", show(command), len(l.all), names), "them"
}

// waitForLeft tells the user which processes padlock is waiting for. Otherwise padlock would seem
// to hang.
func (f *front) waitForLeft() {
	if f.why != nil {
		return // the reason for ending the job was already reported
	}
	text, them := f.left.sentence(f.args[0])
	f.say(f.leftNote(fmt.Sprintf("%s; waiting up to %s more for %s to end (--kill-after)", text, span(f.grace-slowAfter), them)))
}

// tellLeft reports which processes were ended after the command. If the job was asked to end, it
// reports nothing, because all its processes are expected to end.
func (f *front) tellLeft() {
	for more := true; more; {
		select {
		case l := <-f.process.Left():
			f.left.found(l)
		default:
			more = false
		}
	}
	if len(f.left.all) == 0 || f.why != nil || f.asked || isInterrupt(f.process.Exit().Signal) {
		return
	}
	text, them := f.left.sentence(f.args[0])
	deed := "it was ended"
	if them == "them" {
		deed = "they were ended"
	}
	f.say(f.leftNote(fmt.Sprintf("%s; %s (--close leaves %s alone)", text, deed, them)))
}

func (f *front) leftNote(text string) note {
	n := note{Event: "leftover", named: newNamed(f.name), Message: text}
	for _, p := range f.left.all {
		n.Processes = append(n.Processes, process{p.PID, p.Name})
	}
	return n
}

// alarm is a timer that may be unset.
type alarm struct {
	c     <-chan time.Time
	timer *time.Timer
	at    time.Time
}

// setIn makes the alarm go off after d, or at the time that was set before, whichever is earlier.
func (a *alarm) setIn(d time.Duration) {
	at := time.Now().Add(d)
	if a.timer == nil {
		a.timer = time.NewTimer(d)
		a.c, a.at = a.timer.C, at
		return
	}
	if at.Before(a.at) {
		a.resetIn(d)
	}
}

// resetIn makes the alarm go off after d. Unlike setIn, it may move the alarm to a later time.
func (a *alarm) resetIn(d time.Duration) {
	a.at = time.Now().Add(d)
	a.timer.Reset(d)
}
