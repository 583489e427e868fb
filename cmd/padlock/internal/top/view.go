package top

import (
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/observe/sampler"
)

// View implements tea.Model.
func (m Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "padlock top"
	return v
}

// lines returns the lines of the screen: as many as fit, and none wider than the screen.
func (m *Model) lines() []string {
	head, foot, room := m.head(), m.foot(), m.room()
	shown := m.screen
	if shown == reasoning || shown == confirming {
		shown = m.from
	}
	var body []string
	switch shown {
	case help:
		body = m.part(helpLines(), room)
	case details:
		body = m.part(m.detailLines(), room)
	default:
		body = m.tableLines(room)
	}
	body = body[:min(len(body), room)]
	for len(body) < room {
		body = append(body, "")
	}
	all := append(append(head, body...), foot...)
	for i := range all {
		all[i] = ansi.Truncate(all[i], m.width, "…")
	}
	return all[:min(len(all), max(1, m.height))]
}

// room returns the number of lines between the head and the foot of the screen.
func (m *Model) room() int { return max(1, m.height-len(m.head())-len(m.foot())) }

// part returns the lines for which there is room, from the line to which the user has moved. The
// last one says whether there are more.
func (m *Model) part(lines []string, room int) []string {
	lines = lines[min(m.scroll, max(0, len(lines)-room)):]
	if len(lines) <= room {
		return lines
	}
	cut := lines[: room-1 : room-1]
	return append(cut, styled(faint, texts.Several(len(lines)-len(cut), "more line", "more lines")+"; PgDn shows them"))
}

// Print writes all rows once. It makes each column as wide as its longest text, but for a terminal
// not wider than longest columns. For a pipe, longest is 0.
func Print(w io.Writer, c Config, snap *sampler.Snapshot, longest int) error {
	m := Model{config: c, snap: snap, now: snap.Tried, width: 80, index: -1}
	lines := m.head()
	name, by := len("NAME"), len("HOLDER")
	for i := range snap.Names {
		name = max(name, ansi.StringWidth(title(&snap.Names[i])))
		by = max(by, ansi.StringWidth(holder(shownHold(&snap.Names[i]))))
	}
	if longest > 0 {
		name, by = min(name, longest), min(by, longest)
	}
	if len(snap.Names) == 0 {
		lines = append(lines, m.emptyText())
	} else {
		lines = append(lines, m.heading(name, by))
	}
	for i := range snap.Names {
		lines = append(lines, m.tableLine(&snap.Names[i], name, by))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, strings.TrimRight(ansi.Strip(line), " ")); err != nil {
			return err
		}
	}
	return nil
}

// head describes the store, the cost of its samples, and the unknown facts.
func (m *Model) head() []string {
	s := m.snap
	left := styled(bold, "padlock top") + "  " + texts.Visible(m.config.Place)
	right := ""
	if s.Cost.Interval > 0 {
		right = fmt.Sprintf("%.1f requests/s, every %s", s.Cost.Requests, texts.Span(s.Cost.Interval))
	}
	if room := m.width - ansi.StringWidth(left) - 2; room >= len(right) {
		left += strings.Repeat(" ", room+2-len(right)) + right
	}
	lines := []string{left, m.summary()}
	switch age := s.Age(m.now); {
	case s.Err != nil && age < 0:
		lines = append(lines, styled(red, "the store cannot be used: "+texts.Visible(texts.Reason(s.Err))))
	case s.Err != nil:
		lines = append(lines, styled(red, "the rows are "+texts.Span(age)+" old; the store cannot be used: "+texts.Visible(texts.Reason(s.Err))))
	case age > 3*s.Cost.Interval+3*time.Second:
		lines = append(lines, styled(red, "the rows are "+texts.Span(age)+" old; the store does not respond"))
	case s.Incomplete != nil:
		lines = append(lines, styled(yellow, "there may be more locks than these: "+texts.Visible(texts.Reason(s.Incomplete))))
	}
	return append(lines, "")
}

// summary counts the rows and says which of them are shown.
func (m *Model) summary() string {
	s := m.snap
	if s.Taken.IsZero() {
		return "waiting for the store"
	}
	sums := s.Totals()
	text := texts.Several(sums.Names, "name", "names")
	part := fmt.Sprintf(", %d stuck", sums.Stuck)
	if sums.Stuck > 0 {
		part = ", " + styled(red, fmt.Sprintf("%d stuck", sums.Stuck))
	}
	text += part + fmt.Sprintf(", %d waiting", sums.Waiters)
	if s.Prefix != "" {
		text += "; prefix " + texts.Show(s.Prefix)
	}
	if m.filter != "" {
		text += "; filter " + texts.Show(m.filter)
	}
	return text + "  " + styled(faint, texts.Clock(m.now, m.now))
}

// The widths of the columns, without the name and the note, which share the rest.
const (
	heldWidth   = 7
	usualWidth  = 7
	leftWidth   = 7
	waitWidth   = 4
	fixedWidths = 2 + heldWidth + usualWidth + leftWidth + waitWidth + 6 // with the marks and the gaps
)

// tableLines returns the heading and as many rows as there is room for. The row at the cursor is
// always one of them.
func (m *Model) tableLines(room int) []string {
	rows := m.rows()
	rest := max(30, m.width-fixedWidths)
	name, by := rest*2/5, rest*3/10
	lines := []string{styled(bold, m.heading(name, by))}
	if len(rows) == 0 {
		return append(lines, m.emptyText())
	}
	_, at := m.chosen(rows)
	from := max(0, min(at-(room-1)/2, len(rows)-(room-1)))
	for i, n := range rows[from:min(len(rows), from+room-1)] {
		line := m.tableLine(n, name, by)
		switch {
		case m.index >= 0 && from+i == at:
			line = styled(reverse, cell(line, m.width))
		case len(n.Stuck) > 0:
			line = styled(red, line)
		case n.Waiters > 0:
			line = styled(yellow, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// emptyText returns the text for a table without rows. If the state of some names is unknown, the
// text must not say that all names are free.
func (m *Model) emptyText() string {
	switch {
	case m.filter != "":
		return "no row matches; Esc shows all"
	case m.snap.Taken.IsZero():
		return ""
	case m.snap.Err != nil || m.snap.Incomplete != nil:
		return "it is not known which locks are held"
	}
	return "no locks are held"
}

func (m *Model) heading(name, by int) string {
	return fmt.Sprintf("  %s %s %s %s %s %s %s", cell("NAME", name), cell("HOLDER", by),
		number("HELD", heldWidth), number("USUAL", usualWidth), number("LEFT", leftWidth),
		number("WAIT", waitWidth), "NOTE")
}

func (m *Model) tableLine(n *sampler.Name, name, by int) string {
	h := shownHold(n)
	mark, lasts, usual, left, wait := " ", "-", "-", "-", "?"
	switch {
	case len(n.Stuck) > 0:
		mark = "!"
	case n.Waiters > 0:
		mark = "*"
	}
	if h != nil && !h.Cooling {
		lasts = texts.Span(h.Held + m.snap.Age(m.now))
		if h.AtLeast {
			lasts = ">" + lasts
		}
	}
	if n.Usual.Count > 0 {
		usual = texts.Span(n.Usual.P95)
	}
	if h != nil && !texts.EndOfHold(h.Hold).IsZero() {
		if left = texts.Span(texts.EndOfHold(h.Hold).Sub(m.now)); texts.EndOfHold(h.Hold).Before(m.now) {
			left = "over"
		}
	}
	if n.Waiters >= 0 {
		wait = itoa(n.Waiters)
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s %s %s %s %s %s", mark, cell(title(n), name), cell(holder(h), by),
		number(lasts, heldWidth), number(usual, usualWidth), number(left, leftWidth), number(wait, waitWidth), noteColumn(n)), " ")
}

// foot returns the last lines of the screen. They show what the user is typing, or the last message
// and the keys.
func (m *Model) foot() []string {
	var keys []string
	for _, b := range bindings[m.screen] {
		if b.help != "" && (b.help != "b break" || m.config.Break != nil) {
			keys = append(keys, b.help)
		}
	}
	legend := styled(faint, strings.Join(keys, "  "))
	switch m.screen {
	case filtering:
		return []string{"/" + texts.Visible(m.filter) + "▏", legend}
	case reasoning:
		return append(m.question(), "Why? "+texts.Visible(m.typed)+"▏", legend)
	case confirming:
		return append(m.question(), "Reason: "+texts.Visible(m.reason), "Type yes to break it: "+texts.Visible(m.typed)+"▏", legend)
	}
	return []string{styled(bold, texts.Visible(m.message)), legend}
}

// question shows the hold that would be broken.
func (m *Model) question() []string {
	h := &m.victim
	text := "held by " + holder(h)
	if h.Cooling {
		text = "cooling down; the last holder was " + holder(h)
	}
	if h.Label != "" {
		text += " (" + texts.Show(h.Label) + ")"
	}
	fence := "it has no fence"
	if h.Fence > 0 {
		fence = fmt.Sprintf("fence %d", h.Fence)
	}
	return []string{
		styled(bold, "Break "+texts.Title(h.Name)+"?"),
		fmt.Sprintf("It is %s, for %s; %s.", text, texts.Span(h.Held+m.seen.Age(m.now)), fence),
		"Breaking it does not stop the holder.",
	}
}
