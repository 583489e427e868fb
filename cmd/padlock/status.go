package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const statusLong = `status shows who holds the lock NAME, since when and until when. It does not touch
the lock.

The exit status is the one that "padlock run -n NAME" would have: 0 if the lock is
free, 75 if it is held or cooling down, 69 if the store cannot tell. The answer may
be out of date when you read it. To do something only while a lock is free, use
run -n.`

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status NAME",
		Short: "Show who holds a lock",
		Long:  statusLong,
		Example: `  padlock status nightly-report
  padlock status --json nightly-report | jq .holders
  padlock status --store file:///var/lib/shared-locks deploy`,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(c *cobra.Command, args []string) error { return a.showStatus(c.Context(), args[0]) },
	}
}

// state is a lock in JSON.
type state struct {
	named
	Held    bool   `json:"held"`
	Holders []hold `json:"holders"`
	Fence   uint64 `json:"fence,omitempty"`
	Waiters *int   `json:"waiters,omitempty"` // absent if unknown
	Path    string `json:"path,omitempty"`
}

func newState(s *padlock.State) state {
	out := state{named: newNamed(s.Name), Held: len(s.Holds) > 0, Holders: []hold{}, Fence: s.Fence, Path: s.Path}
	for _, h := range s.Holds {
		out.Holders = append(out.Holders, describe(h))
	}
	if s.Waiters >= 0 {
		out.Waiters = &s.Waiters
	}
	return out
}

func (a *app) showStatus(ctx context.Context, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	s, err := l.Inspect(ctx, name)
	if err != nil {
		return a.unknown(name, err)
	}
	if len(s.Holds) > 0 {
		a.status = exitHeld
	}
	if a.json {
		return a.print(a.stdout, newState(&s))
	}
	_, err = fmt.Fprintln(a.stdout, strings.Join(lines(&s, time.Now()), "\n"))
	return err
}

// unknown is the failure to find out who holds a lock. It is never a usage error, even if the store
// can never answer that question.
func (a *app) unknown(name string, err error) *failure {
	if errors.Is(err, errors.ErrUnsupported) {
		return fail(exitUnavailable, "unknown", name, "%s cannot tell who holds a lock: %s", a.place(), reason(err))
	}
	return a.explain(name, err)
}

// lines describes a lock for a person.
func lines(s *padlock.State, now time.Time) []string {
	var out []string
	for _, h := range s.Holds {
		out = append(out, show(s.Name)+" is "+sentence(h, now))
	}
	if len(out) == 0 {
		out = append(out, show(s.Name)+" is free")
	}
	if s.Waiters > 0 {
		out = append(out, fmt.Sprintf("  waiting: %d", s.Waiters))
	}
	if s.Fence > 0 {
		out = append(out, fmt.Sprintf("  fence:   %d", s.Fence))
	}
	if s.Path != "" {
		out = append(out, "  file:    "+show(s.Path))
	}
	return out
}

// oneName requires exactly one argument, the name of a lock.
func oneName(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usage("the name of the lock is missing; see %s --help", c.CommandPath())
	case args[0] == "":
		return usage("the name of the lock is empty; see %s --help", c.CommandPath())
	case len(args) > 1:
		return usage("one name at a time; see %s --help", c.CommandPath())
	}
	return nil
}

// onlyKey requires that there are no arguments, because the verb uses a key.
func onlyKey(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes a key and not a name; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
}

// noArgs requires that there are no arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
}
