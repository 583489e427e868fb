package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/sampler"
)

const waitLong = `wait returns when the lock NAME is free, without taking it. Somebody else may have
taken it before you act: to do something while the lock is free, use padlock run.
wait does not join the queue. It looks at least once a second, less often while the
store cannot be reached, and gives up when that has lasted for 30 seconds.
With --slots N, wait returns when one of the slots 0 to N-1 of NAME is free.

Exit status:
  0    the lock is free
  75   the lock was not free within --wait
` + commonStatuses

// waited is what wait prints in JSON: the fields of status, and the duration of the wait.
type waited struct {
	name    sampler.Name
	Seconds float64 `json:"seconds"`
}

// MarshalJSON implements json.Marshaler.
func (w waited) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(w.name)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text[:len(text)-1], `,"seconds":%g}`, w.Seconds), nil
}

func (a *app) waitCommand() *cobra.Command {
	var bound seconds
	var slots slotCount
	c := &cobra.Command{
		Use:   "wait [FLAGS] NAME",
		Short: "Wait until a lock is free, without taking it",
		Long:  waitLong,
		Example: `  padlock wait -w 10m deploy && echo "the deploy is over"
  padlock wait deploy; padlock status deploy`,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(c *cobra.Command, args []string) error { return a.wait(c.Context(), bound, int(slots), args[0]) },
	}
	c.Flags().SetNormalizeFunc(likeFlock)
	c.Flags().VarP(&bound, "wait", "w", "wait at most `SECONDS` (also --timeout)")
	c.Flags().Var(&slots, "slots", "wait until one of `N` slots of NAME is free, as for run --slots N")
	return c
}

func (a *app) wait(ctx context.Context, bound seconds, slots int, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	ctx, stop := interruptible(ctx)
	begin := time.Now()
	w := watcher{l: l, name: name, slots: slots, progress: newProgress(a, &runFlags{slots: slotCount(slots)})}
	w.progress.locker, w.progress.outside = l, true
	if bound.given {
		w.until = begin.Add(bound.d)
	}
	s, err := w.waitForFree(ctx)
	w.progress.removeLine()
	if sig := stop(); sig != nil {
		return interruptedBy(sig, name)
	}
	took := time.Since(begin)
	switch {
	case err != nil:
		return a.holdersUnknown(name, err)
	case len(s.Blocking(slots)) > 0:
		held := heldBy(s.Blocking(slots))
		why := heldFailure(name, held)
		if slots > 0 {
			why = slotsFailure(name, slots, held)
		}
		why.note.Message += "; gave up after " + span(took)
		return why
	case a.json:
		return a.print(a.stdout, waited{s, took.Seconds()})
	}
	what := show(name)
	if slots > 0 {
		what = "a slot of " + what
	}
	a.remark(name, "%s is free, after %s", what, span(took))
	return nil
}

// watcher asks for the state of a name until it is free.
type watcher struct {
	l     *padlock.Locker
	name  string
	slots int       // 0: without --slots
	until time.Time // zero means no limit
	pause time.Duration
	since time.Time // when the current series of failures began

	progress *progress
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// outage is the time after which the command gives up if the store is out of reach.
	outage = 30 * time.Second
)

// waitForFree waits until the name is free, or until the user's time limit is over. It returns the
// last state that it saw. If the time limit is over, the name may still be held in that state.
func (w *watcher) waitForFree(ctx context.Context) (sampler.Name, error) {
	first := true
	for {
		s, err := sampler.Look(ctx, w.l, w.name, w.slots)
		switch {
		case err == nil:
			w.since = time.Time{}
			blocking := s.Blocking(w.slots)
			if len(blocking) == 0 || w.over() {
				return s, nil
			}
			w.progress.beginWait(w.name, heldBy(blocking))
		case guarded(err): // this is temporary: the server grants no locks yet
			if w.over() {
				return s, err
			}
		case first || !errors.Is(err, padlock.ErrUnavailable) || w.givesUp():
			return s, err
		}
		first = false
		if err := w.pauseNext(ctx); err != nil {
			return s, err
		}
	}
}

func (w *watcher) over() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

// givesUp reports whether it is time to give up, because the store has been out of reach for too
// long, or because the time for which the user wants to wait is over.
func (w *watcher) givesUp() bool {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return w.over() || time.Since(w.since) > outage
}

// pauseNext pauses before the next request. Each pause is longer than the last.
func (w *watcher) pauseNext(ctx context.Context) error {
	w.pause = min(max(w.pause*3/2, firstPause), lastPause)
	d := w.pause - time.Duration(rand.Int64N(int64(w.pause/4)))
	if !w.until.IsZero() {
		d = max(min(d, time.Until(w.until)), 0)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting: %w", ctx.Err())
	}
}
