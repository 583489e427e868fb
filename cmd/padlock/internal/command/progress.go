package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
)

const (
	// showAfter is how long a wait may last before it is shown.
	showAfter = time.Second
	// askEvery is how often padlock asks the store for the current holder.
	askEvery = 3 * time.Second
)

// progress shows the holder of the lock on a terminal while padlock waits. Without a terminal it
// prints nothing, because cron would mail the output.
type progress struct {
	app    *app
	set    *runFlags
	locker *padlock.Locker
	shown  bool // there is a terminal
	redraw bool // the line may be overwritten in place

	once   sync.Once
	cancel context.CancelFunc // nil before begin
	done   chan struct{}

	begun time.Time
	ahead int // upper bound of the waiters ahead in the queue, or -1 if unknown

	mu   sync.Mutex // guards the following
	name string     // the name that is held
	held *padlock.HeldError

	drawn bool
}

func newProgress(a *app, set *runFlags) *progress {
	term := os.Getenv("TERM")
	return &progress{
		app: a, set: set, shown: !a.json && !set.verbose && !set.quiet && atTerminal(), redraw: term != "" && term != "dumb",
		done: make(chan struct{}), ahead: -1,
	}
}

// beginWait is called when the lock with the given name is held, and padlock begins to wait for it.
func (p *progress) beginWait(name string, held *padlock.HeldError) {
	if !p.shown {
		return
	}
	p.mu.Lock()
	p.name, p.held = name, held
	p.mu.Unlock()
	p.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		p.cancel, p.begun = cancel, time.Now()
		go p.show(ctx)
	})
}

// removeLine removes the line from the terminal. After that, progress shows nothing more.
func (p *progress) removeLine() {
	p.once.Do(func() {})
	if p.cancel != nil {
		p.cancel()
		<-p.done
	}
}

func (p *progress) show(ctx context.Context) {
	defer close(p.done)
	tick := time.NewTicker(showAfter)
	defer tick.Stop()
	asked := time.Now()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			p.wipe()
			return
		case <-tick.C:
		}
		if first || time.Since(asked) >= askEvery {
			p.askHolder(ctx)
			asked = time.Now()
		}
		if ctx.Err() == nil {
			p.draw()
		}
	}
}

// askHolder updates the holder and the queue. If the store cannot report them, they stay as they
// are.
func (p *progress) askHolder(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	p.mu.Lock()
	name := p.name
	p.mu.Unlock()
	n, err := sampler.Look(ctx, p.locker, name, int(p.set.slots))
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != p.name { // another name is held now
		p.ahead = -1
		return
	}
	if blocking := n.Blocking(n.Slots); len(blocking) > 0 {
		p.held = heldBy(blocking)
	}
	// Waiters get the lock in order of arrival, so the number of waiters ahead of this one never
	// grows.
	if n.Slots == 0 && p.locker.Guarantees().FIFO && n.Waiters > 0 && (p.ahead < 0 || n.Waiters-1 < p.ahead) {
		p.ahead = n.Waiters - 1
	}
}

func (p *progress) text(now time.Time) string {
	place := ""
	switch {
	case p.ahead == 0:
		place = " (next in the queue)"
	case p.ahead > 0:
		place = fmt.Sprintf(" (at most %d ahead)", p.ahead)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("padlock: waiting for %s%s: %s", span(now.Sub(p.begun).Round(time.Second)), place, p.set.heldText(p.name, p.held, now))
}

func (p *progress) draw() {
	if !atTerminal() { // padlock is in the background now
		return
	}
	line := p.text(time.Now())
	switch {
	case p.redraw:
		fmt.Fprint(p.app.stderr, "\r\x1b[K"+fitLine(line, terminalWidth()))
	case !p.drawn:
		fmt.Fprintln(p.app.stderr, line)
	}
	p.drawn = true
}

func (p *progress) wipe() {
	if p.drawn && p.redraw && atTerminal() {
		fmt.Fprint(p.app.stderr, "\r\x1b[K")
	}
}

// fitLine shortens a line to the width of the terminal. A line of more than one row could not be
// removed.
func fitLine(line string, width int) string {
	if width <= 1 || utf8.RuneCountInString(line) < width {
		return line
	}
	runes := []rune(line)
	return strings.TrimSpace(string(runes[:width-2])) + "…"
}
