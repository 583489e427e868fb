// Package texts formats times, durations, and texts that come from other programs. The result is
// for a person at a terminal.
package texts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/printable"
)

var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w./:@%+=,-]+$`) })

// Plain reports whether a text needs no quotes.
func Plain(s string) bool { return word().MatchString(s) }

// Show makes a text of another program safe to print on a terminal.
func Show(s string) string {
	if Plain(s) {
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

// Reason returns the text of an error without the library's prefixes.
func Reason(err error) string {
	var e *padlock.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	what := err.Error()
	for _, said := range []error{padlock.ErrInvalid, padlock.ErrUnavailable} {
		what = strings.ReplaceAll(what, said.Error()+": ", "")
	}
	return what
}

// PathReason returns the text of a file system error without the operation and the file name. If
// the user knows the file, the caller's message names it.
func PathReason(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err.Error()
	}
	return err.Error()
}

// EndOfHold returns the planned end of a hold, or else the end of its lease.
func EndOfHold(h padlock.Hold) time.Time {
	if !h.PlannedEnd.IsZero() {
		return h.PlannedEnd
	}
	return h.Until
}

// Title describes a name in messages. The name may be that of a slot.
func Title(name string) string {
	if base, number, ok := fast.SplitSlot(name); ok && number >= 0 {
		return fmt.Sprintf("slot %d of %s", number, Show(base))
	}
	return Show(name)
}
