package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
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

// sentence describes a hold. The text follows "NAME is".
func sentence(h padlock.Hold, now time.Time) string {
	if h.Cooling {
		line := "cooling down" + endText(h.Until, now)
		if anybody(h) {
			line += "; the last holder was " + who(h)
		}
		return line
	}
	line := "held by " + who(h)
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

// who names a holder.
func who(h padlock.Hold) string {
	var name string
	switch {
	case h.Foreign:
		name = "a program other than padlock"
		if h.PID != 0 {
			name += fmt.Sprintf(" (process %d)", h.PID)
		}
	case h.Host == "" && h.PID == 0:
		name = "somebody unknown"
	default:
		name = show(h.Host) + ":" + strconv.Itoa(h.PID)
	}
	if h.Label != "" {
		name += " (" + show(h.Label) + ")"
	}
	return name
}

var plain = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// show makes a foreign text safe to print on a terminal.
func show(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// printable replaces control characters in a server's text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// visible escapes control characters, which a terminal would obey.
func visible(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}

// clock returns a time of day, with the date unless it is today.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// span rounds a duration to the precision that a reader needs.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Second).String()
}
