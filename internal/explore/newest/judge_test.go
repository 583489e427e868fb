package newest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/newest"
	"github.com/padlock-go/padlock/storekit/decide"
)

var errForever = errors.New("all goes well, and somebody waits for ever")

func (c *caller) isLive(h decide.Hold) bool {
	return h.Until > c.w.now().At && c.w.owners[h.Token] == c
}

func (c *caller) isOver() bool { return c.lock.Context().Err() != nil }

func (c *caller) hasTurn() bool { return c.lock != nil && !c.dead && !c.isOver() }

// begins notes that c sends r, unless it is paused.
func (c *caller) begins(r *request) {
	c.touched = true
	switch {
	case r.name == job && r.op == "acquire" && c.waits == 0:
		c.waits = c.w.at()
	case r.name == waiting && r.op == "release" && c.ended == 0:
		c.ended = c.w.at()
	}
}

// gets notes that the store has granted h to c.
func (c *caller) gets(name string, h *decide.Hold) {
	c.w.grants++
	switch name {
	case waiting:
		c.marked = c.w.grants
		c.number, _ = strconv.ParseUint(h.Holder.Label, 10, 64)
	case job:
		c.got = c.w.grants
	default: // at last, its record
		c.wrote = c.stopped
	}
}

// collect judges the result of a call.
func (c *caller) collect(r result) error {
	c.touched, c.w.changed = true, c.w.at()
	switch r.what {
	case "Release":
		c.released = true
		if r.err != nil && !c.astray {
			return fmt.Errorf("Release of %s returns %w", c.name, r.err)
		}
	case "Close":
		c.closed = true
		return c.judgeClose(r.err)
	default:
		c.returned, c.lock, c.asked, c.err, c.leaves = true, r.lock, r.asked, r.err, c.w.at()+turn
		return c.judgeAcquire(r.err)
	}
	return nil
}

func (c *caller) judgeAcquire(err error) error {
	w := c.w
	newer := func(is func(*caller) bool) bool {
		return slices.ContainsFunc(w.callers, func(n *caller) bool { return n.number > c.number && is(n) })
	}
	switch {
	case err == nil && c.isOver():
		if !c.astray || c.ended == w.at() && c.wrote == c.stopped { // no stop since the record was written, so Acquire could know it
			return fmt.Errorf("%s gets a lock that is over", c.name)
		}
	case err == nil:
		if c.number <= w.newest {
			return safety.ErrBroken("%s with the number %d has its turn after number %d", c.name, c.number, w.newest)
		}
		if newer(func(n *caller) bool {
			return n.marked > 0 && n.marked < c.got && slices.ContainsFunc(w.named(waiting).Holds, n.isLive)
		}) {
			return fmt.Errorf("%s has its turn, and a newer caller has waited since before it got the lock", c.name)
		}
		fence := w.fence
		c.had, w.newest, w.fence = true, c.number, c.lock.Fence()
		return safety.FenceRises(w.fence, fence)
	case errors.Is(err, newest.ErrSuperseded):
		blind := strings.Contains(err.Error(), "could not look")
		if blind && c.blind+2*driver.MaxSilence < keepLast || !blind && !newer(func(n *caller) bool { return n.got > 0 }) {
			return fmt.Errorf("%s is dropped, and no newer one has got the lock: %w", c.name, err)
		}
	case !c.astray && !(c.cancelled && errors.Is(err, context.Canceled)):
		return fmt.Errorf("Acquire of %s returns %w, and its requests went well; it was cancelled: %v", c.name, err, c.cancelled)
	}
	return nil
}

func (c *caller) judgeClose(err error) error {
	if c.astray {
		return nil
	}
	if err != nil {
		return fmt.Errorf("Close of %s returns %w", c.name, err)
	}
	for name, state := range c.w.names {
		if slices.ContainsFunc(state.Holds, c.isLive) && !strings.HasPrefix(called[name], "last") && called[name] != "question" {
			return fmt.Errorf("%s has closed its Locker, and still has %q", c.name, called[name])
		}
	}
	return nil
}

// judge looks at the world at each rest.
func (w *world) judge() error {
	var turns []string
	for _, c := range w.callers {
		if c.hasTurn() {
			turns = append(turns, c.name)
		}
	}
	if len(turns) > 1 {
		return safety.ErrTwoHold("%q", turns)
	}
	return nil
}

// judgeAtRest looks at the world when nothing but time can pass.
func (w *world) judgeAtRest() error {
	var waits, turn, stopped bool
	for _, c := range w.callers {
		waits = waits || c.arrived && !c.returned && !c.astray
		turn = turn || c.hasTurn()
		stopped = stopped || c.paused || c.cut
		if err := c.judgeAsked(); err != nil {
			return err
		}
	}
	if quiet := w.at() - w.changed; quiet > 5*time.Minute || quiet > idle && waits && !turn && !stopped {
		return errForever
	}
	return nil
}

// judgeAsked returns an error if c should have been asked to leave.
func (c *caller) judgeAsked() error {
	const look = time.Second
	if !c.hasTurn() || c.astray || slices.ContainsFunc(c.w.requests, func(r *request) bool { return r.caller == c }) {
		return nil
	}
	select {
	case <-c.asked:
		return nil
	default:
	}
	for _, n := range c.w.callers {
		if n.number > c.number && n.waits > 0 && !n.returned && !n.astray && c.w.at() > max(n.waits, c.ended)+look {
			return fmt.Errorf("%s was not asked to leave, although %s waits", c.name, n.name)
		}
	}
	return nil
}
