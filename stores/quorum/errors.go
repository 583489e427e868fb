package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// failure is an error that quotes the members' errors in its text and does not wrap them. An error
// of one member, such as ErrHeld or ErrUncertain, may be wrong for the quorum as a whole.
type failure struct {
	kind  error // an error of package driver
	text  string
	extra error // nil, or the error of the caller's context, or driver.ErrSpent
}

func (f *failure) Error() string {
	text := f.kind.Error()
	if f.text != "" {
		text += ": " + f.text
	}
	if f.extra != nil {
		text += "; " + f.extra.Error()
	}
	return text
}

func (f *failure) Unwrap() []error {
	if f.extra == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.extra}
}

// fail returns an error that wraps kind. If extra is not nil, the error also wraps extra. The text
// of the error quotes the answer of each member that did not say yes.
func (s *Store) fail(kind error, answers []answer, extra error) error {
	var parts []string
	for i := range answers {
		a := &answers[i]
		err := a.err
		switch {
		case a.verdict == yes || a.verdict == unasked || a.verdict == never && err == nil:
			continue
		case a.verdict == pending && err == nil:
			err = errNotAwaited
		}
		parts = append(parts, fmt.Sprintf("%v: %v", s.members[i], err))
	}
	text := fmt.Sprintf("%d of %d members agree, %d are needed", count(answers, yes), len(answers), s.need)
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, "; ") + ")"
	}
	return &failure{kind, strings.ReplaceAll(text, "\n", ", "), extra}
}

// openError returns ErrUncertain if the request may have changed something at a member, else
// ErrUnavailable.
func (s *Store) openError(answers []answer, extra error) error {
	for i := range answers {
		switch answers[i].verdict {
		case yes, unsure, pending, busy:
			return s.fail(driver.ErrUncertain, answers, extra)
		}
	}
	return s.fail(driver.ErrUnavailable, answers, extra)
}

// undecided is called when it is not known whether a quorum accepts a request. It returns the error
// of the request. The argument isChange is false for a request that changes nothing.
func (s *Store) undecided(answers []answer, isChange bool, cause error) error {
	if err := refusal(answers); err != nil {
		return err
	}
	if !isChange && cause == nil {
		return s.fail(driver.ErrUnavailable, answers, nil)
	}
	return s.openError(answers, cause)
}

// loss returns the error of a lost hold, or nil if the hold is not lost. The hold is lost if so
// many members deny it that no quorum is left. The error is ErrExpired if enough members return
// ErrExpired, and otherwise ErrLost. ErrExpired means that no other caller can have had the lock
// since the lease expired.
func (s *Store) loss(answers []answer) error {
	if !s.refuses(count(answers, gone)) {
		return nil
	}
	expired := 0
	for i := range answers {
		if answers[i].verdict == gone && errors.Is(answers[i].err, driver.ErrExpired) {
			expired++
		}
	}
	if s.refuses(expired) {
		return s.fail(driver.ErrExpired, answers, nil)
	}
	return s.fail(driver.ErrLost, answers, nil)
}

// heldError combines the answers of the members that refuse.
func (s *Store) heldError(answers []answer) error {
	e := &driver.HeldError{Waiters: -1}
	var m merger
	var free []time.Time // when each member will be free; zero means now
	for i := range answers {
		var h *driver.HeldError
		switch {
		case answers[i].verdict == yes || answers[i].verdict == unasked:
			free = append(free, time.Time{})
		case errors.As(answers[i].err, &h):
			m.add(h.Holds)
			if !h.Until.IsZero() {
				free = append(free, h.Until)
			}
		}
	}
	m.dropReleased()
	e.Holds = m.holdsOf(1, s.need)
	if len(free) >= s.need {
		sort.Slice(free, func(i, j int) bool { return free[i].Before(free[j]) })
		e.Until = free[s.need-1]
	}
	return e
}

// merger combines what members report about one name. Members do not report tokens. So if two
// members report holds with the same host, process, label and mode, these count as one hold. If one
// member reports two such holds, they count as two.
type merger struct{ groups []group }

// dropReleased drops holds that were released but are still reported. Members that got the release
// report a cool-down of the holder. The other members still report the hold. dropReleased drops the
// hold if at least as many members report the cool-down as the hold.
func (m *merger) dropReleased() {
	left := func(g group) bool {
		return !g.who.cooling && slices.ContainsFunc(m.groups, func(c group) bool {
			same := c.who.host == g.who.host && c.who.pid == g.who.pid && c.who.label == g.who.label
			return c.who.cooling && same && c.reports >= g.reports
		})
	}
	m.groups = slices.DeleteFunc(slices.Clone(m.groups), left)
}

type group struct {
	who     who
	hold    driver.Hold
	reports int
	untils  []time.Time
}

type who struct {
	host, label     string
	pid             int
	shared, foreign bool
	cooling         bool
	nth             int // a number that distinguishes holds that are otherwise alike
}

func (m *merger) add(holds []driver.Hold) {
	seen := make(map[who]int)
	for _, h := range holds {
		w := who{h.Host, h.Label, h.PID, h.Shared, h.Foreign, h.Cooling, 0}
		seen[w]++
		w.nth = seen[w]
		m.group(w, h)
	}
}

func (m *merger) group(w who, h driver.Hold) {
	i := slices.IndexFunc(m.groups, func(g group) bool { return g.who == w })
	if i < 0 {
		i = len(m.groups)
		m.groups = append(m.groups, group{who: w, hold: h})
	}
	g := &m.groups[i]
	g.reports++
	g.untils = append(g.untils, h.Until)
	g.hold.Since = earlier(g.hold.Since, h.Since)
	g.hold.PlannedEnd = earlier(g.hold.PlannedEnd, h.PlannedEnd)
	g.hold.Plan = cmp.Or(g.hold.Plan, h.Plan)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// holdsOf returns the holds that at least minReports members report. For one hold, the members may
// report different times in Until. The result has the time after which no quorum has the hold.
func (m *merger) holdsOf(minReports, need int) []driver.Hold {
	var out []driver.Hold
	for _, g := range m.groups {
		if g.reports < minReports {
			continue
		}
		sort.Slice(g.untils, func(i, j int) bool { return g.untils[i].After(g.untils[j]) })
		g.hold.Until = g.untils[min(need, len(g.untils))-1]
		out = append(out, g.hold)
	}
	return out
}
