package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/padlock-go/padlock/driver/fast"
)

// seconds is a flag for a duration: seconds with fractions, as in flock(1), or a Go duration.
type seconds struct {
	d     time.Duration
	given bool
}

func (s *seconds) String() string {
	if !s.given {
		return ""
	}
	return s.d.String()
}

func (s *seconds) Type() string { return "SECONDS" }

func (s *seconds) Set(text string) error {
	d, err := parseSeconds(text)
	if err != nil {
		return err
	}
	s.d, s.given = d, true
	return nil
}

// aYear is the longest duration that the command line accepts, so that no duration overflows.
const aYear = 366 * 24 * time.Hour

func parseSeconds(text string) (time.Duration, error) {
	d, err := parseDays(text)
	if n, errN := strconv.ParseFloat(text, 64); errN == nil {
		switch {
		case n > aYear.Seconds():
			d, err = aYear+1, nil
		case n >= 0:
			d, err = time.Duration(n*float64(time.Second)), nil
		default: // negative, or not a number
			d, err = -1, nil
		}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("write seconds, such as 1.5, or a duration, such as 90s, 10m or 1d")
	case d < 0 || d > aYear:
		return 0, fmt.Errorf("a time is from 0 to a year")
	}
	return d, nil
}

// parseDays reads a Go duration that may begin with days, such as 1d12h.
func parseDays(text string) (time.Duration, error) {
	number, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(number, 10, 10)
	if err != nil || rest == "" {
		return time.Duration(days) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(rest)
	if d < 0 || d > aYear {
		return -1, err
	}
	return time.Duration(days)*24*time.Hour + d, err
}

// exitStatus is a flag for an exit status. As in flock(1), 075 is 75, and not octal.
type exitStatus int

func (e *exitStatus) String() string { return strconv.Itoa(int(*e)) }

func (e *exitStatus) Type() string { return "N" }

func (e *exitStatus) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return errors.New("an exit status is from 0 to 255")
	}
	*e = exitStatus(n)
	return nil
}

// slotCount is a flag for the number of slots of a name. It is 0 if the flag is not given.
type slotCount int

func (n *slotCount) String() string { return strconv.Itoa(int(*n)) }

func (n *slotCount) Type() string { return "N" }

func (n *slotCount) Set(text string) error {
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > fast.MaxSlots {
		return fmt.Errorf("a name has 1 to %d slots", fast.MaxSlots)
	}
	*n = slotCount(count)
	return nil
}

// watchable checks the names of --watch.
func watchable(names []string) error {
	if slices.Contains(names, "") {
		return usage("--watch: the name of the lock is empty")
	}
	return nil
}

// choice is a flag that sets a boolean variable to a given value. If two flags set the same
// variable, the last flag counts, as in flock(1).
type choice struct {
	variable *bool
	value    bool
}

func (c choice) String() string { return "false" }

func (c choice) Type() string { return "bool" }

func (c choice) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err == nil && on {
		*c.variable = c.value
	}
	return err
}

// signalFlag is a flag for a signal, by name or number.
type signalFlag struct{ sig syscall.Signal }

func (s *signalFlag) String() string {
	for name, sig := range signalNames {
		if sig == s.sig {
			return name
		}
	}
	return strconv.Itoa(int(s.sig))
}

func (s *signalFlag) Type() string { return "SIGNAL" }

func (s *signalFlag) Set(text string) error {
	if sig, ok := signalNames[strings.TrimPrefix(strings.ToUpper(text), "SIG")]; ok {
		s.sig = sig
		return nil
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 65 {
		s.sig = syscall.Signal(n)
		return nil
	}
	return fmt.Errorf("write a name such as TERM or INT, or a number")
}

// policyFlag is the flag --wait-policy.
type policyFlag string

// With policySkip, padlock gives up at once if the holder plans to hold the lock for longer than
// the caller would wait.
const policySkip policyFlag = "skip"

func (p *policyFlag) String() string { return string(*p) }

func (p *policyFlag) Type() string { return "POLICY" }

func (p *policyFlag) Set(text string) error {
	if text != "wait" && text != string(policySkip) {
		return fmt.Errorf("write wait or skip")
	}
	*p = policyFlag(text)
	return nil
}

// flockNames maps names of flags in flock(1) and elsewhere to padlock's names.
var flockNames = map[string]string{
	"nb": "nonblock", "nonblocking": "nonblock", "timeout": "wait",
	"holder": "label", "holder-label": "label", "command": "shell",
}

func likeFlock(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if ours, ok := flockNames[name]; ok {
		name = ours
	}
	return pflag.NormalizedName(name)
}
