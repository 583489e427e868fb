package command

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/observe/sampler"
)

// named is a name in JSON. A name may contain any bytes, but a JSON string may not.
type named struct {
	Name  string `json:"name,omitempty"`
	Bytes []byte `json:"name_base64,omitempty"` // only if the name is not UTF-8
}

func newNamed(name string) named {
	n := named{Name: name}
	if !utf8.ValidString(name) {
		n.Bytes = []byte(name)
	}
	return n
}

// jsonHolds returns holds in the form that the JSON of every verb has.
func jsonHolds(holds []padlock.Hold) []sampler.Hold {
	var all []sampler.Hold
	for _, h := range holds {
		all = append(all, sampler.Hold{Slot: -1, Hold: h})
	}
	return all
}

// heldBy returns the error of a caller whom the holds keep from a name.
func heldBy(holds []sampler.Hold) *padlock.HeldError {
	held := &padlock.HeldError{}
	for i := range holds {
		held.Holds = append(held.Holds, holds[i].Hold)
	}
	return held
}

// sentence describes a hold. It returns the part of the sentence that follows "NAME is".
func sentence(h padlock.Hold, now time.Time) string {
	if h.Cooling {
		line := "cooling down" + endText(h.Until, now)
		if anybody(h) {
			line += "; the last holder was " + holderName(h)
		}
		return line
	}
	line := "held by " + holderName(h)
	if h.Shared {
		line += ", shared"
	}
	if !h.Since.IsZero() {
		line += fmt.Sprintf(", since %s (for %s)", clock(h.Since, now), span(now.Sub(h.Since)))
	}
	if !h.Until.IsZero() {
		line += endText(h.Until, now) + " unless it is renewed"
	}
	if !h.PlannedEnd.IsZero() {
		line += ", to end by " + clock(h.PlannedEnd, now)
	}
	return line
}

func endText(until, now time.Time) string {
	if until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %s (%s more)", clock(until, now), span(until.Sub(now)))
}

func anybody(h padlock.Hold) bool { return h.Host != "" || h.PID != 0 || h.Label != "" }

// holderName returns a text that names a holder.
func holderName(h padlock.Hold) string {
	var name string
	switch {
	case h.Foreign:
		name = "a program other than padlock"
		if h.PID != 0 {
			name += fmt.Sprintf(" (process %d)", h.PID)
		}
	case h.Host == "" && h.PID == 0:
		name = "somebody unknown"
	case h.Host == "": // the store serves one machine only and records no host
		name = "process " + strconv.Itoa(h.PID)
	default:
		name = show(h.Host) + ":" + strconv.Itoa(h.PID)
	}
	if h.Label != "" {
		name += " (" + show(h.Label) + ")"
	}
	return name
}

// These are short names for functions of package texts. That package writes times, durations,
// names and errors in the same form on every screen.
var (
	plain      = texts.Plain
	show       = texts.Show
	visible    = texts.Visible
	clock      = texts.Clock
	span       = texts.Span
	several    = texts.Several
	title      = texts.Title
	endOfHold  = texts.EndOfHold
	reason     = texts.Reason
	pathReason = texts.PathReason
)

// askedText says who asks, since when, and why.
func askedText(q *padlock.Question, now time.Time) string {
	text := fmt.Sprintf("%s, since %s (for %s)", holderName(padlock.Hold{Holder: q.By}), clock(q.At, now), span(now.Sub(q.At)))
	if q.Reason != "" {
		text += ": " + show(q.Reason)
	}
	return text
}
