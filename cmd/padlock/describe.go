package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
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

// hold is a hold in JSON.
type hold struct {
	Host       string     `json:"host,omitempty"`
	PID        int        `json:"pid,omitempty"`
	Label      string     `json:"label,omitempty"`
	Shared     bool       `json:"shared"`
	Foreign    bool       `json:"foreign,omitempty"`
	Cooling    bool       `json:"cooling,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	PlannedEnd *time.Time `json:"planned_end,omitempty"`
}

func describe(h padlock.Hold) hold {
	return hold{
		Host: h.Host, PID: h.PID, Label: h.Label, Shared: h.Shared, Foreign: h.Foreign, Cooling: h.Cooling,
		Since: known(h.Since), Until: known(h.Until), PlannedEnd: known(h.PlannedEnd),
	}
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
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
	switch {
	case !h.PlannedEnd.IsZero():
		line += ", to end by " + clock(h.PlannedEnd, now)
	case !h.Until.IsZero():
		line += endText(h.Until, now) + " unless it is renewed"
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

// These are short names for functions of package texts. That package writes times, durations and
// names in the same form on every screen.
var (
	plain   = texts.Word
	show    = texts.Show
	visible = texts.Visible
	clock   = texts.Clock
	span    = texts.Span
)

// printable replaces control characters in a server's text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
