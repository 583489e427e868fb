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

// These are the errors of stores.
var (
	ErrHeld      = errors.New("lock is held")      // always a *HeldError
	ErrExpired   = errors.New("lease has expired") // and nobody has taken the name since
	ErrLost      = errors.New("lock is lost")      // somebody took or broke the hold, or the store cannot tell
	ErrUncertain = errors.New("outcome is uncertain")
	ErrInvalid   = errors.New("invalid parameter")
	ErrClosed    = errors.New("closed")

	ErrUnavailable = errors.New("store is unavailable")

	// ErrSpent means that a composite store has abandoned an Acquire, and grants nothing for its
	// token. It is joined with ErrUncertain if members may still have holds for it, which the store
	// releases in the background, and otherwise with ErrUnavailable.
	ErrSpent = errors.New("the try was given up")

	// ErrQueueFull is an error of Wait: no more callers may wait for the name. The caller then
	// polls.
	ErrQueueFull = errors.New("too many callers wait for the name in its store")

	ErrPromotionConflict = errors.New("another reader is being promoted")

	// ErrFencesUsedUp is an ErrInvalid of grants, promotions, hand-overs and Break: the name has no
	// fence left below MaxFence, and nothing was changed.
	ErrFencesUsedUp error = usedUp{}

	ErrAlreadyHeld = errors.New("lock is already held by the caller")
)

type usedUp struct{}

func (usedUp) Error() string {
	return ErrInvalid.Error() + ": name has no fence left below 2^53: use another name"
}

func (usedUp) Is(target error) bool { return target == ErrInvalid }

// HeldError is ErrHeld with what the store knows.
type HeldError struct {
	Holds []Hold // what is in the way, also a cool-down

	// Until is when the last of these holds ends if none is renewed; for a name with slots, when
	// the first one does. It is zero if unknown.
	Until time.Time

	Waiters int // ahead of this caller; -1 if unknown
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

// Cooling reports whether nothing but a cool-down keeps the name.
func (e *HeldError) Cooling() bool {
	return len(e.Holds) > 0 && !slices.ContainsFunc(e.Holds, func(h Hold) bool { return !h.Cooling })
}

// RetryAfter returns the time until the planned end of the holds or cool-down, or of the first
// permit, or def if that is unknown.
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
