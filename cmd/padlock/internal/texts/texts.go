// Package texts formats times, durations, and texts that come from other programs. The result is
// for a person at a terminal.
package texts

import (
	"regexp"
	"strconv"
	"strings"
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

// Clock returns a time of day, with the date unless it is today.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// Span cuts a duration to the precision that a reader needs, in at most seven letters up to 999
// hours.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(time.Second / 10).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// Several returns a number with a noun.
func Several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
