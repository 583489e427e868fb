package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/top"
	"github.com/padlock-go/padlock/observe/sampler"
)

const topLong = `top shows the locks of the store, and keeps the picture up to date: stuck locks first,
then those that many wait for, then those that are held longest. With PREFIX it shows
only names that begin with PREFIX. Press ? for the keys.

A lock is stuck if its holder does not renew the lease, is past its planned end, or has
had the lock for more than 3 times as long as the name is usually held. top learns the
usual time while it runs. It sees locks of other programs too, such as PHP or flock(1).

Press b to break a lock, as padlock break does. top shows the holder, the age and the
fence, asks for a reason, and breaks only the hold that it has shown. Each break is
recorded in JSON on standard error: at the end, or at once if standard error is a file.

With --once or --json, or if standard input or output is no terminal, top looks once,
prints and ends.

Exit status:
  0    done
  64   the command line or the store's URL is wrong
  69   the store cannot be used, or there may be more locks than these
  74   the output could not be written`

// watching holds the flags of top.
type watching struct {
	once, readOnly bool
	interval       seconds
	watch          []string
	prefix         string
}

func (a *app) topCommand() *cobra.Command {
	set := &watching{}
	c := &cobra.Command{
		Use:   "top [FLAGS] [PREFIX]",
		Short: "Show what is held, stuck and waited for, live",
		Long:  topLong,
		Example: `  padlock top
  padlock top --readonly deploy/
  padlock top --json | jq -r '.names[] | select(.stuck) | .name'`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one prefix at a time; see %s --help", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			set.prefix = strings.Join(args, "")
			return a.top(c.Context(), set)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&set.once, "once", false, "look once, print and end")
	c.Flags().BoolVar(&set.readOnly, "readonly", false, "do not let the user break locks")
	c.Flags().Var(&set.interval, "interval", "look every `SECONDS` (default 1); less often with many names")
	c.Flags().StringArrayVar(&set.watch, "watch", nil, "also show `NAME` while it is free, or if the store cannot list names")
	return c
}

func (a *app) top(ctx context.Context, set *watching) error {
	if set.interval.given && set.interval.d <= 0 {
		return usage("--interval must be above 0")
	}
	if err := watchable(set.watch); err != nil {
		return err
	}
	live := !set.once && !a.json && isTerminal(os.Stdin) && isTerminal(os.Stdout) && os.Getenv("TERM") != "dumb"
	openLocker := a.looker
	// If the directory of the store does not exist, looker uses an empty store instead. The live
	// table must use the directory itself: another program may make it later, and then its locks
	// must appear.
	if live {
		openLocker = func(ctx context.Context, name string) (*padlock.Locker, error) { return a.locker(ctx, name) }
	}
	l, err := openLocker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	s := sampler.New(l, sampler.Prefix(set.prefix), sampler.Watch(set.watch...), sampler.Interval(set.interval.d), sampler.Place(a.storeName()))
	if !live {
		return a.topOnce(ctx, s)
	}
	return a.topLive(ctx, s, l, set)
}

// topOnce prints one sample.
func (a *app) topOnce(ctx context.Context, s *sampler.Sampler) error {
	snap, err := s.Sample(ctx)
	if err != nil {
		return a.holdersUnknown("", err)
	}
	if snap.Incomplete != nil && len(snap.Names) == 0 {
		return a.unlisted(snap.Incomplete)
	}
	if a.json {
		err = a.print(a.stdout, snap)
	} else {
		err = top.Print(a.stdout, top.Config{Place: a.storeName()}, snap, longestAtTerminal())
	}
	if err == nil && snap.Incomplete != nil {
		return fail(exitUnavailable, "incomplete", "", "%s may have more locks than these: %s", a.place(), reason(snap.Incomplete))
	}
	return err
}

// unlisted returns the failure for a store that cannot list the names of its locks.
func (a *app) unlisted(err error) *failure {
	f := fail(exitUnavailable, "unknown", "", "%s cannot list all of its locks: %s", a.place(), reason(err))
	f.note.Do = []string{"padlock top --watch NAME"}
	return f
}

// topLive shows the screen until the user leaves it.
func (a *app) topLive(ctx context.Context, s *sampler.Sampler, l *padlock.Locker, set *watching) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.Run(ctx)
	var kept bytes.Buffer
	records := a.stderr
	if isTerminal(os.Stderr) { // there, records would overwrite the screen, so they are kept until it is closed
		records = &kept
	}
	var breaking sync.Mutex // guards kept, too
	c := top.Config{
		Place: a.storeName(), Next: s.Next, Lookup: s.Lookup,
		History: func(ctx context.Context, name string) []string { return a.topHistory(ctx, l, name) },
	}
	if !set.readOnly {
		audit := slog.New(slog.NewJSONHandler(records, nil))
		c.Break = func(ctx context.Context, h sampler.Hold, reason string) string {
			breaking.Lock()
			defer breaking.Unlock()
			text := a.topBreak(ctx, l, audit, &h, reason)
			_, _ = s.Sample(ctx) // the screen shows a failure by itself
			return text
		}
	}
	err := top.Run(ctx, c, os.Stdin, os.Stdout)
	breaking.Lock() // wait for a break that is still running; the user can close the screen at any time
	_, _ = kept.WriteTo(a.stderr)
	if err != nil {
		return fail(exitSystem, "system", "", "the terminal cannot be used: %v", err)
	}
	return nil
}

// breakPatience is the longest time that top spends on breaking a lock.
const breakPatience = 10 * time.Second

// topBreak breaks the hold that the user saw, and writes the audit record. It returns a text for
// the user.
func (a *app) topBreak(ctx context.Context, l *padlock.Locker, audit *slog.Logger, h *sampler.Hold, reason string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakPatience)
	defer cancel()
	fence, err := l.Break(ctx, h.Name, h.Fence)
	event := "break"
	attrs := []slog.Attr{
		slog.String("name", withoutSlot(h.Name)), slog.Int("slot", h.Slot), slog.Uint64("fence", h.Fence), slog.String("reason", reason),
		slog.Group("holder0", "host", h.Host, "pid", h.PID, "label", h.Label, "since", h.Since), slog.String("user", userName()),
	}
	if err != nil {
		event = "break failed"
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	audit.LogAttrs(ctx, slog.LevelInfo, event, attrs...)
	switch {
	case err == nil:
		return fmt.Sprintf("%s is broken; the next fence is above %d", title(h.Name), fence)
	case errors.Is(err, errors.ErrUnsupported):
		return a.unbreakable(&sampler.Name{Name: h.Name, Holds: []sampler.Hold{*h}}).note.Message
	case errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrUncertain):
		return title(h.Name) + " has changed hands; nothing was broken"
	}
	return a.unsuccessful(withoutSlot(h.Name), "broken", err).note.Message
}

// userName returns the name of the user for the audit record, or his number.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint(os.Getuid())
}

// topRuns is the number of runs that padlock top shows for a name.
const topRuns = 10

// topHistory returns the last runs of a name as padlock history prints them.
func (a *app) topHistory(ctx context.Context, l *padlock.Locker, name string) []string {
	ctx, cancel := context.WithTimeout(ctx, a.runsPatience)
	defer cancel()
	quiet := *a // its remarks would disturb the screen
	quiet.stderr = io.Discard
	var page bytes.Buffer
	if err := quiet.tellRuns(ctx, &page, l, a.history(a.opened), name, &past{}); err != nil && page.Len() == 0 {
		return []string{"the runs cannot be read: " + reason(err)}
	}
	lines := strings.Split(strings.TrimSpace(page.String()), "\n")
	if lines[0] == "" {
		return nil
	}
	return lines[:min(len(lines), topRuns+1)]
}
