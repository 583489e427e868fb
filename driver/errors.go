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

// A store returns these errors alone or wrapped. Use errors.Is to find them. Package padlock has
// the same values under the same names.
var (
	// ErrHeld means that another holder has the name. The error is a *HeldError.
	ErrHeld = errors.New("lock is held")
	// ErrExpired means that the lease has run out, and that nobody has taken the name since.
	ErrExpired = errors.New("lease has expired")
	// ErrLost means that the hold is gone. Another client took it or broke it, or the store cannot
	// tell.
	ErrLost = errors.New("lock is lost")
	// ErrUncertain means that the request may or may not have been carried out.
	ErrUncertain = errors.New("outcome is uncertain")
	// ErrSpent is returned only by Acquire of a composite store, such as a quorum. The store has
	// abandoned the try: it has granted nothing for this token, and never will. To try again, use a
	// new token. ErrSpent is always joined with one of two errors:
	//
	//   - ErrUncertain: Some members may still hold the name for the abandoned token.
	//   - ErrUnavailable: No member holds the name for the abandoned token. There was no majority:
	//     other callers held the name at some members, and the store could not reach the other
	//     members. The caller should try again.
	ErrSpent = errors.New("the try was given up")
	// ErrUnavailable means that nothing was changed, because the store could not be reached, or
	// because it accepts no new holds at present.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrPromotionConflict means that another reader is being promoted already.
	ErrPromotionConflict = errors.New("another reader is being promoted")
	// ErrInvalid means that a parameter is out of range. The text names the parameter.
	ErrInvalid = errors.New("invalid parameter")
	// ErrFencesUsedUp means that the name has no fence left, because fences must stay below
	// MaxFence. The request was refused and changed nothing. Use another name.
	// errors.Is(ErrFencesUsedUp, ErrInvalid) is true.
	ErrFencesUsedUp error = usedUp{}
	// ErrAlreadyHeld means that the caller already holds the name and would wait for itself. For a
	// lock in a transaction it means that this process already holds the name.
	ErrAlreadyHeld = errors.New("lock is already held by the caller")
	// ErrClosed means that the store, or the Locker, was closed.
	ErrClosed = errors.New("closed")
)

type usedUp struct{}

func (usedUp) Error() string {
	return ErrInvalid.Error() + ": name has no fence left below 2^53: use another name"
}

func (usedUp) Is(target error) bool { return target == ErrInvalid }

// HeldError reports the holders of a name, as far as the store knows them. errors.Is finds ErrHeld
// in it.
type HeldError struct {
	Holds []Hold // the holds, or the cool-down, that are in the way; may be empty

	// Until is when the name will be free if none of these holds is renewed: when the last of them
	// ends. For a name with slots, it is when the first of them ends. It is zero if unknown.
	Until time.Time

	Waiters int // waiters ahead of this caller; -1 if unknown
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Foreign reports whether a program other than padlock holds the name.
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

// String returns one line with the holder, the mode and the times of the hold.
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
