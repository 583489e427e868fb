package driver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sentinels that a store returns, alone or wrapped, always to be asked for
// with errors.Is. Package padlock re-exports them.
var (
	// ErrHeld: somebody else has the name. The error is a *HeldError.
	ErrHeld = errors.New("lock is held")
	// ErrExpired: the lease had run out, and nobody took the name since.
	ErrExpired = errors.New("lease has expired")
	// ErrLost: the hold is gone: taken, broken, or the store cannot tell.
	ErrLost = errors.New("lock is lost")
	// ErrUncertain: the request may or may not have been carried out.
	ErrUncertain = errors.New("outcome is uncertain")
	// ErrSpent, in the answer to Acquire of a store made of stores: it has given
	// the try up, and the token with it; to try again takes a new one. Beside
	// ErrUncertain: it is no grant and will be none, and only what is left of it
	// is uncertain. Beside ErrUnavailable: nothing is left; others had some of
	// what it takes and the rest could not be asked, so it is worth another try.
	ErrSpent = errors.New("the try was given up")
	// ErrUnavailable: the store could not be asked, and nothing was changed.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrPromotionConflict: another reader is being promoted already.
	ErrPromotionConflict = errors.New("another reader is being promoted")
	// ErrInvalid: a parameter is out of range.
	ErrInvalid = errors.New("invalid parameter")
	// ErrFencesUsedUp: the name was granted the last fence below MaxFence. No
	// hold that needs a new fence is granted any more, and nothing was changed.
	// errors.Is(err, ErrInvalid) is true of it, too.
	ErrFencesUsedUp error = usedUp{}
	// ErrClosed: the store, or the Locker, was closed.
	ErrClosed = errors.New("closed")
)

type usedUp struct{}

func (usedUp) Error() string {
	return ErrInvalid.Error() + ": name has no fence left below 2^53: use another name"
}

func (usedUp) Is(target error) bool { return target == ErrInvalid }

// HeldError says by whom a name is held, as far as the store knows. It answers
// errors.Is for ErrHeld.
type HeldError struct {
	Holds   []Hold    // who is in the way, a cool-down included; may be empty
	Until   time.Time // when the last lease in the way ends if nobody renews; zero if unknown
	Waiters int       // that were before this caller; -1 if unknown
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Foreign reports whether somebody else than padlock is in the way.
func (e *HeldError) Foreign() bool {
	for i := range e.Holds {
		if e.Holds[i].Foreign {
			return true
		}
	}
	return false
}

// Error names the first holder and counts the others.
func (e *HeldError) Error() string {
	if len(e.Holds) == 0 {
		return ErrHeld.Error() + until(e.Until)
	}
	text := ErrHeld.Error() + " by " + e.Holds[0].String()
	if e.Holds[0].Cooling {
		text = "lock cools down" + until(e.Holds[0].Until)
	}
	if n := len(e.Holds) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// String says who, since and until when, in one line.
func (h Hold) String() string {
	if h.Cooling {
		return "a cool-down" + until(h.Until)
	}
	var parts []string
	switch {
	case h.Foreign:
		parts = append(parts, "a program other than padlock")
	case h.Host == "" && h.PID == 0:
		parts = append(parts, "an unknown holder")
	default:
		parts = append(parts, fmt.Sprintf("%s:%d", clean(h.Host), h.PID))
	}
	if h.Label != "" {
		parts = append(parts, fmt.Sprintf("(%q)", h.Label))
	}
	if h.Shared {
		parts = append(parts, "shared")
	}
	if !h.Since.IsZero() {
		parts = append(parts, "since "+h.Since.Format(time.RFC3339))
	}
	return strings.Join(parts, " ") + until(h.Until)
}

// clean quotes a host that has anything but printable characters, or a quote. The text comes from
// the server, where anybody may have written it: it must not forge a line of a log, or reach a
// terminal raw.
func clean(host string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError || r == ' ' || r == '"' }
	if strings.ContainsFunc(host, odd) {
		return strconv.Quote(host)
	}
	return host
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " until " + t.Format(time.RFC3339)
}
