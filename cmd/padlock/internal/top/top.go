// Package top is the screen of padlock top. It shows a live table of the locks of a store, or the
// details of a name, and asks the user before it breaks a lock. Update changes nothing but the
// model, so tests need no terminal.
package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/padlock-go/padlock/observe/sampler"
)

// Config is what the screen needs from outside.
type Config struct {
	Place string // the store, for the first line, without secrets

	// Next waits for a snapshot that is newer than the one with this number.
	Next func(ctx context.Context, number uint64) (*sampler.Snapshot, error)

	// Lookup returns the known facts about a name that has no row.
	Lookup func(name string) (sampler.Name, bool)

	// Break breaks a hold that the user saw, for the reason that the user gave. It returns a text
	// about the result. If Break is nil, the screen is read-only.
	Break func(ctx context.Context, h sampler.Hold, reason string) string

	// History returns the last runs of a name, one per line. It may be nil.
	History func(ctx context.Context, name string) []string
}

// Run shows the screen until the user leaves it or ctx ends.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	_, err := tea.NewProgram(New(ctx, c), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// The type screen says which screen the user sees. A key can have a different meaning on each
// screen: see bindings.
type screen int

const (
	table      screen = iota
	filtering         // the user types a filter, and the table shows only rows that match
	details           // one name
	reasoning         // the user types why a hold is to be broken
	confirming        // the user types yes
	help
)

// Model is the state of the screen.
type Model struct {
	config Config
	ctx    context.Context
	snap   *sampler.Snapshot
	now    time.Time

	width, height int
	screen, from  screen // the present screen, and the screen that is shown after a question or the help

	filter string // only rows that match are shown
	cursor string // the key of the chosen row; finds the row again after the row has moved
	index  int    // where the chosen row was last
	detail sampler.Name
	hold   int // the index of the chosen hold, while the screen shows one name
	scroll int // the first visible line, while the screen shows one name
	runs   []string

	typed   string // what the user is typing
	reason  string
	victim  sampler.Hold      // the hold that would be broken, as the user saw it
	seen    *sampler.Snapshot // the snapshot that showed this hold to the user
	message string
}

// The messages of the program.
type (
	snapshotMsg struct{ snap *sampler.Snapshot }
	tickMsg     time.Time
	runsMsg     struct {
		name  string
		lines []string
	}
	brokenMsg struct{ text string }
)

// New returns a Model without rows.
func New(ctx context.Context, c Config) Model {
	return Model{config: c, ctx: ctx, snap: &sampler.Snapshot{}, width: 80, height: 24}
}

// Init implements tea.Model.
func (m Model) Init() tea.Cmd { return tea.Batch(m.nextSnapshot(), tick()) }

// tick makes the program update the times on the screen, even while the store does not respond.
func tick() tea.Cmd { return tea.Every(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// nextSnapshot waits for the next snapshot.
func (m Model) nextSnapshot() tea.Cmd {
	number, next, ctx := m.snap.Number, m.config.Next, m.ctx
	return func() tea.Msg {
		snap, err := next(ctx, number)
		if err != nil {
			return nil // ctx has ended
		}
		return snapshotMsg{snap}
	}
}

// history asks for the last runs of the name that the screen shows.
func (m Model) history() tea.Cmd {
	name, history, ctx := m.detail.Name, m.config.History, m.ctx
	if history == nil || name == "" {
		return nil
	}
	return func() tea.Msg { return runsMsg{name, history(ctx, name)} }
}

// breakLock breaks the hold about which the user was asked.
func (m Model) breakLock() tea.Cmd {
	hold, reason, f, ctx := m.victim, m.reason, m.config.Break, m.ctx
	return func() tea.Msg { return brokenMsg{f(ctx, hold, reason)} }
}
