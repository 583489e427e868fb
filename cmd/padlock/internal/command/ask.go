package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
)

const askLong = `ask asks the holder of a lock to finish early, and tells it the reason. It never takes
the lock away: the holder finishes when it can, or works on. A program learns of the
question if it looks for it: in Go with padlock.Asked, in padlock run with --on-ask
SIGNAL. Others go on. padlock status shows who asked.

The question lasts for a minute, and it is for the present holder only. With --wait,
ask repeats it until the holder has left. If somebody has asked this holder already,
that question stays, and ask says so.

Slots (run --slots) cannot be asked. For a holder that does not answer, see
padlock break.

Exit status:
  0    the holder is asked (with --wait: it has left), or nobody had the lock
  75   --wait: the holder has not left in time
` + commonStatuses

// asking holds the flags of ask.
type asking struct {
	reason string
	wait   seconds
}

// asked is what ask prints in JSON.
type asked struct {
	named
	Asked   bool           `json:"asked"`
	Reason  string         `json:"reason,omitempty"`
	Fence   uint64         `json:"fence,omitempty"` // of the holder that was asked
	Earlier bool           `json:"earlier"`         // somebody else has asked it before
	Left    *bool          `json:"left,omitempty"`  // with --wait: whether the holder has left
	Holders []sampler.Hold `json:"holders"`
}

func (a *app) askCommand() *cobra.Command {
	set := &asking{}
	c := &cobra.Command{
		Use:   "ask [FLAGS] NAME",
		Short: "Ask the holder of a lock to finish early",
		Long:  askLong,
		Example: `  padlock ask --reason "deploy of v2" nightly-report
  padlock ask --wait 60 scheduler && systemctl stop scheduler`,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(c *cobra.Command, args []string) error { return a.ask(c.Context(), set, args[0]) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&set.reason, "reason", "", "show `TEXT` to the holder and in padlock status")
	c.Flags().VarP(&set.wait, "wait", "w", "wait at most `SECONDS` until the holder has left")
	return c
}

// askAgain is how often ask --wait looks and repeats the question.
const askAgain = time.Second

func (a *app) ask(ctx context.Context, set *asking, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	began := time.Now()
	out := asked{named: newNamed(name), Holders: []sampler.Hold{}}
	q, err := l.Ask(ctx, name, set.reason)
	switch {
	case errors.Is(err, padlock.ErrLost):
		return a.tellAsked(&out, title(name)+" is free; there is nobody to ask")
	case errors.Is(err, errors.ErrUnsupported):
		return fail(exitUsage, "unsupported", name, "%s cannot keep a question to the holder of %s: %s", a.place(), show(name), reason(err))
	case err != nil:
		return a.unsuccessful(name, "asked", err)
	}
	out.Asked, out.Reason, out.Fence, out.Earlier = true, q.Reason, q.Fence, q.Reason != set.reason
	n, err := sampler.Look(ctx, l, name, 0)
	if err == nil {
		out.Holders = append(out.Holders, n.Holds...)
	}
	text := fmt.Sprintf("%s: its holder is asked to finish early", title(name))
	if len(n.Holds) > 0 {
		text = fmt.Sprintf("%s is %s; it is asked to finish early", title(name), sentence(n.Holds[0].Hold, time.Now()))
	}
	if out.Earlier {
		text += ", by " + askedText(&q, time.Now())
	}
	if !set.wait.given {
		return a.tellAsked(&out, text)
	}
	a.remark(name, "%s", text)
	left, err := a.awaitLeaving(ctx, l, q, began.Add(set.wait.d))
	if err != nil {
		return err
	}
	if out.Left = &left; left {
		return a.tellAsked(&out, fmt.Sprintf("%s: the holder has left, after %s", title(name), span(time.Since(began))))
	}
	a.status = exitHeld
	return a.tellAsked(&out, fmt.Sprintf("%s: the holder has not left within %s", title(name), span(set.wait.d)))
}

// awaitLeaving repeats a question until its holder has left, or until end.
func (a *app) awaitLeaving(ctx context.Context, l *padlock.Locker, q padlock.Question, end time.Time) (bool, error) {
	for {
		n, err := sampler.Look(ctx, l, q.Name, 0)
		switch {
		case err != nil:
			return false, a.holdersUnknown(q.Name, err)
		case n.State != sampler.Held || n.Fence > q.Fence:
			return true, nil
		case !time.Now().Before(end):
			return false, nil
		}
		if n.Asked == nil { // the question has ended
			if _, err := l.Ask(ctx, q.Name, q.Reason); err != nil && !errors.Is(err, padlock.ErrLost) {
				return false, a.unsuccessful(q.Name, "asked", err)
			}
		}
		select {
		case <-time.After(min(askAgain, time.Until(end))):
		case <-ctx.Done():
			return false, a.unsuccessful(q.Name, "asked", ctx.Err())
		}
	}
}

func (a *app) tellAsked(out *asked, text string) error {
	if a.json {
		return a.print(a.stdout, out)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}
