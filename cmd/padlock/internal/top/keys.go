package top

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/padlock-go/padlock/observe/sampler"
)

// A binding says what a key does. On three screens the user types text: a filter, a reason, or the
// word yes. On these screens, every key without a binding adds a character to the text.
type binding struct {
	keys []string
	help string // shown in the last line of the screen, unless it is ""
	do   func(Model) (Model, tea.Cmd)
}

// bindings is the table of all keys.
//
//	screen       goes to
//	table        filtering (/), details (Enter), reasoning (b), help (?)
//	filtering    table
//	details      table or details, reasoning (b), help (?)
//	reasoning    confirming (Enter, with a reason), or back (Esc)
//	confirming   back: Enter after "yes" breaks the lock, everything else does not
//	help         back
var bindings map[screen][]binding

func init() {
	quit := binding{[]string{"q", "ctrl+c"}, "q quit", func(m Model) (Model, tea.Cmd) { return m, tea.Quit }}
	suspend := binding{[]string{"ctrl+z"}, "", func(m Model) (Model, tea.Cmd) { return m, tea.Suspend }}
	helps := binding{[]string{"?"}, "? help", Model.showHelp}
	back := binding{[]string{"esc"}, "Esc back", Model.back}
	abort := binding{[]string{"ctrl+c"}, "", Model.back}
	rub := binding{[]string{"backspace"}, "", Model.rubOut}
	pageUp := binding{[]string{"pgup"}, "", func(m Model) (Model, tea.Cmd) { return m.scrolled(-m.height / 2), nil }}
	pageDown := binding{[]string{"pgdown"}, "PgDn more", func(m Model) (Model, tea.Cmd) { return m.scrolled(m.height / 2), nil }}
	breaks := binding{[]string{"b"}, "b break", Model.askReason}
	bindings = map[screen][]binding{
		table: {
			{[]string{"up", "k"}, "", func(m Model) (Model, tea.Cmd) { return m.move(-1), nil }},
			{[]string{"down", "j"}, "", func(m Model) (Model, tea.Cmd) { return m.move(1), nil }},
			{[]string{"pgup"}, "", func(m Model) (Model, tea.Cmd) { return m.move(-m.height), nil }},
			{[]string{"pgdown"}, "", func(m Model) (Model, tea.Cmd) { return m.move(m.height), nil }},
			{[]string{"home", "g"}, "", func(m Model) (Model, tea.Cmd) { return m.move(-1 << 30), nil }},
			{[]string{"end", "G"}, "", func(m Model) (Model, tea.Cmd) { return m.move(1 << 30), nil }},
			{[]string{"enter"}, "Enter details", Model.showDetails},
			{[]string{"/"}, "/ filter", Model.askFilter},
			breaks, {[]string{"esc"}, "", Model.showAll}, helps, quit, suspend,
		},
		filtering: {
			{[]string{"enter"}, "Enter keeps the filter", func(m Model) (Model, tea.Cmd) { m.screen = table; return m, nil }},
			{[]string{"esc", "ctrl+c"}, "Esc removes it", func(m Model) (Model, tea.Cmd) { m.screen, m.filter = table, ""; return m, nil }},
			{[]string{"backspace"}, "", func(m Model) (Model, tea.Cmd) { m.filter = shorter(m.filter); return m, nil }},
		},
		details: {
			{[]string{"up", "k"}, "", func(m Model) (Model, tea.Cmd) { return m.choose(-1), nil }},
			{[]string{"down", "j"}, "↑↓ holder", func(m Model) (Model, tea.Cmd) { return m.choose(1), nil }},
			pageUp, pageDown,
			breaks, {[]string{"enter"}, "", Model.back}, back, helps, quit, suspend,
		},
		reasoning:  {{[]string{"enter"}, "Enter goes on", Model.askYes}, {[]string{"esc"}, "Esc breaks nothing", Model.back}, abort, rub},
		confirming: {{[]string{"enter"}, "Enter", Model.confirm}, {[]string{"esc"}, "Esc breaks nothing", Model.back}, abort, rub},
		help:       {pageUp, pageDown, {[]string{"enter", "?"}, "", Model.back}, back, quit},
	}
}

// Update implements tea.Model. It sends no requests to the store itself. Instead, it returns
// commands that send them.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.now = laterTime(m.now, time.Time(msg))
		return m, tick()
	case snapshotMsg:
		m.snap, m.now = msg.snap, laterTime(m.now, msg.snap.Tried)
		m = m.refreshed()
		return m, m.nextSnapshot()
	case runsMsg:
		if msg.name == m.detail.Name {
			m.runs = msg.lines
		}
	case brokenMsg:
		m.message = msg.text
	case tea.PasteMsg:
		return m.typing(msg.Content), nil
	case tea.KeyPressMsg:
		return m.press(msg)
	}
	return m, nil
}

// press carries out the binding of a key on the present screen.
func (m Model) press(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	m.message = ""
	for _, b := range bindings[m.screen] {
		if slices.Contains(b.keys, k.String()) {
			return b.do(m)
		}
	}
	return m.typing(k.Text), nil
}

// typing adds a text to the line that the user types.
func (m Model) typing(text string) Model {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	switch m.screen {
	case filtering:
		m.filter += text
	case reasoning, confirming:
		m.typed += text
	}
	return m
}

// refreshed returns the model with the details of the chosen name from the newest snapshot.
func (m Model) refreshed() Model {
	if m.detail.Name == "" && m.detail.Path == "" {
		return m
	}
	k := key(&m.detail)
	for i := range m.snap.Names {
		if key(&m.snap.Names[i]) == k {
			m.detail = m.snap.Names[i]
			return m.choose(0)
		}
	}
	n, ok := m.config.Lookup(m.detail.Name)
	switch s := m.snap; {
	case ok:
		m.detail = n
	case s.Err != nil || s.Incomplete != nil:
		m.detail.State, m.detail.Why = sampler.Unknown, "it has no row any more"
	default:
		m.detail.State, m.detail.Holds = sampler.Free, nil
	}
	return m.choose(0)
}

// move moves the cursor by n rows.
func (m Model) move(n int) Model {
	rows := m.rows()
	if len(rows) == 0 {
		return m
	}
	_, i := m.chosen(rows)
	i = max(0, min(i+n, len(rows)-1))
	m.cursor, m.index = key(rows[i]), i
	return m
}

// scrolled moves the details or the help by n lines.
func (m Model) scrolled(n int) Model {
	lines := helpLines()
	if m.screen == details {
		lines = m.detailLines()
	}
	m.scroll = max(0, min(m.scroll+n, len(lines)-m.room()))
	return m
}

// choose chooses another hold of the details.
func (m Model) choose(n int) Model {
	m.hold = max(0, min(m.hold+n, len(m.detail.Holds)-1))
	return m
}

func (m Model) showHelp() (Model, tea.Cmd) {
	m.from, m.screen, m.scroll = m.screen, help, 0
	return m, nil
}

func (m Model) back() (Model, tea.Cmd) {
	if m.screen == details {
		m.screen, m.detail, m.runs = table, sampler.Name{}, nil
		return m, nil
	}
	m.screen, m.typed = m.from, ""
	return m, nil
}

// showAll removes the filter.
func (m Model) showAll() (Model, tea.Cmd) {
	m.filter = ""
	return m, nil
}

func (m Model) askFilter() (Model, tea.Cmd) {
	m.screen, m.filter = filtering, ""
	return m, nil
}

func (m Model) rubOut() (Model, tea.Cmd) {
	m.typed = shorter(m.typed)
	return m, nil
}

func shorter(text string) string {
	r := []rune(text)
	return string(r[:max(0, len(r)-1)])
}

func (m Model) showDetails() (Model, tea.Cmd) {
	row, i := m.chosen(m.rows())
	if row == nil {
		return m, nil
	}
	m.screen, m.detail, m.hold, m.scroll, m.runs = details, *row, 0, 0, nil
	m.cursor, m.index = key(row), i
	return m, m.history()
}

// selected returns the hold that the user has selected on the screen, or nil.
func (m *Model) selected() *sampler.Hold {
	if m.screen == details {
		if m.hold < len(m.detail.Holds) {
			return &m.detail.Holds[m.hold]
		}
		return nil
	}
	row, _ := m.chosen(m.rows())
	if row == nil {
		return nil
	}
	return shownHold(row)
}

// askReason asks about the hold as the user sees it now. A later snapshot does not change the hold
// that the question is about.
func (m Model) askReason() (Model, tea.Cmd) {
	h := m.selected()
	switch {
	case m.config.Break == nil:
		m.message = "this screen is read-only"
	case h == nil:
		m.message = "there is nothing to break"
	case m.screen == table && len(holdsOf(&m)) > 1:
		m.message = "it has several holders; press Enter, and choose one"
	case h.Name == "":
		m.message = "the name of the lock is not known"
	default:
		m.victim, m.seen, m.typed, m.reason = *h, m.snap, "", ""
		m.from, m.screen = m.screen, reasoning
	}
	return m, nil
}

// holdsOf returns the holds of the chosen row.
func holdsOf(m *Model) []sampler.Hold {
	if row, _ := m.chosen(m.rows()); row != nil {
		return row.Holds
	}
	return nil
}

func (m Model) askYes() (Model, tea.Cmd) {
	if m.reason = strings.TrimSpace(m.typed); m.reason != "" {
		m.screen, m.typed = confirming, ""
	}
	return m, nil
}

func (m Model) confirm() (Model, tea.Cmd) {
	yes := strings.TrimSpace(m.typed) == "yes"
	m.screen, m.typed = m.from, ""
	if !yes {
		m.message = "nothing was broken"
		return m, nil
	}
	m.message = "…"
	return m, m.breakLock()
}
