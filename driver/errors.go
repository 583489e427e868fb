package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	ErrHeld      = errors.New("lock is held")         // another holder has the name; always a *HeldError
	ErrExpired   = errors.New("lease has expired")    // the lease has run out, and nobody has taken the name since
	ErrLost      = errors.New("lock is lost")         // somebody took or broke the hold, or the store cannot tell
	ErrUncertain = errors.New("outcome is uncertain") // the request may or may not have been carried out
	ErrInvalid   = errors.New("invalid parameter")    // a parameter is out of range
	ErrClosed    = errors.New("closed")               // the store, or the Locker, was closed

	ErrUnavailable = errors.New("store is unavailable") // nothing was changed

	// ErrSpent means that a composite store has abandoned an Acquire, and will grant nothing for
	// this token. It is joined with ErrUncertain if some members may still hold the name for the
	// token. Otherwise it is joined with ErrUnavailable: others held some members, and the store
	// could not reach the rest.
	ErrSpent = errors.New("the try was given up")

	// ErrQueueFull is an error of Wait: the store lets no more callers wait for the name. The caller
	// tries again from time to time.
	ErrQueueFull = errors.New("too many callers wait for the name in its store")

	ErrPromotionConflict = errors.New("another reader is being promoted") // has an intent; see Converter

	// ErrFencesUsedUp means that the name has no fence left below MaxFence, and nothing was
	// changed. It is an ErrInvalid.
	ErrFencesUsedUp error = usedUp{}

	ErrAlreadyHeld = errors.New("lock is already held by the caller") // or, for pgadvisory's lock in a transaction, by its store
)

type usedUp struct{}

func (usedUp) Error() string {
	return ErrInvalid.Error() + ": name has no fence left below 2^53: use another name"
}

func (usedUp) Is(target error) bool { return target == ErrInvalid }

// HeldError is ErrHeld with the holders of the name.
type HeldError struct {
	Holds []Hold // what is in the way, also a cool-down, as far as the store knows

	// Until is when the last of these holds ends if none is renewed; for a name with slots, when
	// the first one does. It is zero if unknown.
	Until time.Time

	Waiters int // waiters ahead of this caller; -1 if unknown
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Foreign reports whether one of the holds is Foreign.
func (e *HeldError) Foreign() bool {
	for i := range e.Holds {
		if e.Holds[i].Foreign {
			return true
		}
	}
	return false
}

// Cooling reports whether nothing but a cool-down keeps the name: the last holder has released it
// with CoolDown or HoldAtLeast, and nobody is at work.
func (e *HeldError) Cooling() bool {
	return len(e.Holds) > 0 && !slices.ContainsFunc(e.Holds, func(h Hold) bool { return !h.Cooling })
}

// RetryAfter returns the time until the planned end of the holds or cool-down, or of the first
// permit, and def if that is unknown.
func (e *HeldError) RetryAfter(def time.Duration) time.Duration {
	var first, last time.Duration
	known := 0
	for i := range e.Holds {
		h := &e.Holds[i]
		end := h.PlannedEnd
		if h.Cooling {
			end = h.Until
		}
		if d := time.Until(end); !end.IsZero() && d > 0 {
			if known++; known == 1 {
				first = d
			}
			first, last = min(first, d), max(last, d)
		}
	}
	switch permits := len(e.Holds) > 1 && !e.Holds[0].Shared; {
	case known > 0 && permits:
		return first
	case known > 0 && known == len(e.Holds):
		return last
	}
	return def
}

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
		if h.PID == os.Getpid() && h.Host == hostname() {
			parts = append(parts, "(this process, by host and number)")
		}
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
	if !h.Until.IsZero() {
		parts = append(parts, "until "+h.Until.Format(time.RFC3339)+" unless it is renewed")
	}
	return strings.Join(parts, " ")
}

// hostname returns the name that a Locker writes as Holder.Host.
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name[:min(len(name), MaxHost)]
})

// clean quotes a host that contains a space, a quote or a character that is not printable. The text
// comes from the server, where any program may have written it. It must not forge a line of a log
// or send control characters to a terminal.
func clean(host string) string {
	suspect := func(r rune) bool {
		return !unicode.IsPrint(r) || r == utf8.RuneError || r == ' ' || r == '"'
	}
	if strings.ContainsFunc(host, suspect) {
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
