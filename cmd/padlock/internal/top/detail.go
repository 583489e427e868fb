package top

import (
	"fmt"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/sampler"
)

// detailLines describes one name.
func (m *Model) detailLines() []string {
	n := &m.detail
	line := fmt.Sprintf("%s is %s", styled(bold, title(n)), n.State)
	if n.Why != "" {
		line += ": " + texts.Visible(n.Why)
	}
	lines := []string{line}
	for _, r := range n.Stuck {
		lines = append(lines, styled(red, "! "+explain(r, n)))
	}
	for i := range n.Holds {
		lines = append(lines, m.holdLines(&n.Holds[i], i == m.hold)...)
	}
	lines = append(lines, "", waiting(n), usual(n), fmt.Sprintf("seen since %s: %s, %s, %s that ran out",
		texts.Clock(m.snap.Begun, m.now), texts.Several(int(n.Grants), "grant", "grants"),
		texts.Several(int(n.Missed), "missed renewal", "missed renewals"), texts.Several(int(n.Expired), "lease", "leases")))
	if n.Path != "" {
		lines = append(lines, "file: "+texts.Show(n.Path))
	}
	if len(n.Ended) > 0 {
		lines = append(lines, "", styled(bold, "Last holders"))
	}
	for i := range n.Ended {
		lines = append(lines, m.endedLine(&n.Ended[i]))
	}
	if len(m.runs) > 0 {
		lines = append(lines, "", styled(bold, "Last runs"))
		for _, run := range m.runs {
			lines = append(lines, "  "+texts.Visible(run))
		}
	}
	return lines
}

// explain says why a name needs attention.
func explain(r sampler.Reason, n *sampler.Name) string {
	switch r {
	case sampler.NotRenewed:
		return "the holder does not renew its lease: it is dead, paused or cut off, or the lease ends soon"
	case sampler.PastEnd:
		return "the holder is past its planned end"
	case sampler.Long:
		return fmt.Sprintf("held %.0f times as long as usual", n.Slowness)
	}
	return string(r)
}

func (m *Model) holdLines(h *sampler.Hold, chosen bool) []string {
	mark := "  "
	if chosen && len(m.detail.Holds) > 1 {
		mark = "> "
	}
	var what []string
	if h.Slot >= 0 {
		what = append(what, fmt.Sprintf("slot %d", h.Slot))
	}
	lasts := "held for " + texts.Span(h.Held+m.snap.Age(m.now))
	switch {
	case h.Cooling:
		lasts = "cools down"
	case h.AtLeast:
		lasts += " or longer"
	}
	what = append(what, lasts)
	if h.Shared {
		what = append(what, "shared")
	}
	if h.Foreign {
		what = append(what, "not taken by padlock")
	}
	first := mark + styled(bold, holder(h))
	if h.Label != "" {
		first += " (" + texts.Show(h.Label) + ")"
	}
	var times []string
	if !h.Since.IsZero() {
		times = append(times, "since "+texts.Clock(h.Since, m.now))
	}
	if !h.PlannedEnd.IsZero() {
		times = append(times, "planned end "+texts.Clock(h.PlannedEnd, m.now))
	}
	if !h.Until.IsZero() {
		times = append(times, fmt.Sprintf("lease until %s (%s left)", texts.Clock(h.Until, m.now), texts.Span(max(0, h.Until.Sub(m.now)))))
	}
	if h.Fence > 0 {
		times = append(times, fmt.Sprintf("fence %d", h.Fence))
	}
	if h.Renewals > 0 || h.Missed > 0 {
		times = append(times, fmt.Sprintf("%s, %d missed", texts.Several(h.Renewals, "renewal", "renewals"), h.Missed))
	}
	return []string{"", first + ": " + strings.Join(what, ", "), "    " + strings.Join(times, ", ")}
}

func waiting(n *sampler.Name) string {
	switch {
	case n.Waiters < 0:
		return "waiting: unknown; the store does not count them"
	case n.Waiters == 0:
		return "waiting: nobody; " + texts.Span(n.WaitTime) + " of waiting in all"
	}
	return fmt.Sprintf("waiting: %s; they have waited for %s together; %s of waiting in all", texts.Several(n.Waiters, "caller", "callers"), texts.Span(n.Waiting), texts.Span(n.WaitTime))
}

func usual(n *sampler.Name) string {
	if n.Usual.Count == 0 {
		return "usual hold: unknown; no hold has ended yet"
	}
	return fmt.Sprintf("usual hold: median %s, p95 %s, p99 %s, longest %s (%s)", texts.Span(n.Usual.P50), texts.Span(n.Usual.P95),
		texts.Span(n.Usual.P99), texts.Span(n.Usual.Max), texts.Several(int(n.Usual.Count), "hold", "holds"))
}

func (m *Model) endedLine(e *sampler.Ended) string {
	h := sampler.Hold{Hold: padlock.Hold{Holder: driver.Holder{Host: e.Host, PID: e.PID}, Foreign: e.Foreign}}
	line := "  until " + texts.Clock(e.End, m.now) + "  " + holder(&h)
	if e.Slot >= 0 {
		line += fmt.Sprintf(" in slot %d", e.Slot)
	}
	if e.Label != "" {
		line += " (" + texts.Show(e.Label) + ")"
	}
	if e.Held >= 0 {
		line += ", held for " + texts.Span(e.Held)
	}
	switch e.How {
	case sampler.Expired:
		line += styled(red, ", the lease ran out")
	case sampler.Released:
		line += ", released"
	}
	return line
}

// helpLines explains the table and the keys.
func helpLines() []string {
	return strings.Split(strings.TrimSpace(`
Stuck names (!) come first, then names that others wait for (*), then the
longest holds.

HELD   how long the longest holder has had the lock; > if it may be longer
USUAL  95 of 100 holds of this name were shorter, as far as top has seen
LEFT   until the planned end, or until the lease ends unless it is renewed
WAIT   callers in the queue; ? if the store does not count them

Not renewed: the holder did not renew its lease in time. Past end: past its
planned end. Long: held for more than 3 times the usual time. Unknown: the
store cannot tell.

↑ ↓ j k   choose a row             PgUp PgDn g G   far away
Enter     details of the name      /     filter
b         break a lock             Esc   back, or show all
q         quit
`), "\n")
}
