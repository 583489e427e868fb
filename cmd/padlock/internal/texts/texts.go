// Package texts formats times, durations, and texts that come from other programs. The result is
// for a person at a terminal.
package texts

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/padlock-go/padlock/internal/printable"
)

// Word matches a text that needs no quotes.
var Word = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// Show makes a text of another program safe to print on a terminal.
func Show(s string) string {
	if Word.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// Visible escapes control characters, which a terminal would obey.
func Visible(s string) string { return printable.Message(s) }

// Purpose returns a command as the label of a lock. Every store keeps labels of 256 bytes.
func Purpose(command string) string { return printable.Cut(command, 256) }

// Label returns a label of a figure of Prometheus. It escapes what cannot be printed, so that only
// the escapes of that format are left for %q.
func Label(name, value string) string {
	return fmt.Sprintf("%s=%q", name, printable.Name(value))
}

// Clock returns a time of day, with the date unless it is today.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// Span rounds a duration to the precision that a reader needs.
func Span(d time.Duration) string {
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
