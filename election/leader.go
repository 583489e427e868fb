package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/padlock-go/padlock"
)

// Leader describes the leader. The candidate itself gave the store this description, and nobody has
// verified it.
type Leader struct {
	Host  string
	PID   int
	Label string
	Since time.Time // when it became the leader; zero if unknown
	Until time.Time // when its lease ends if it is not renewed; zero if unknown
	Fence uint64    // 0 if the store has no fences
}

// Leader asks the store for the leader. It works without Run, so a process that is no candidate can
// use it. ErrNoLeader means that nobody leads. A store that cannot tell returns
// errors.ErrUnsupported. The reply may be outdated when it arrives.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	state, err := e.locker.Inspect(ctx, e.name)
	if err != nil {
		return Leader{}, err
	}
	for _, h := range state.Holds {
		if !h.Cooling {
			return Leader{h.Host, h.PID, h.Label, h.Since, h.Until, state.Fence}, nil
		}
	}
	return Leader{}, ErrNoLeader
}

// sameTerm reports whether l and m are the same term of the same leader. A renewal changes Until
// only.
func (l Leader) sameTerm(m Leader) bool {
	if l.Fence != 0 || m.Fence != 0 {
		return l.Fence == m.Fence
	}
	return l.Host == m.Host && l.PID == m.PID && l.Since.Equal(m.Since)
}

// Changes returns an iterator over the leaders: first the present one, and then each new one. While
// nobody leads, the error is ErrNoLeader. Any other error means that the store could not be asked.
// If several requests in a row fail in the same way, Changes yields only the first error. The
// iteration ends when ctx ends.
//
// Changes asks the store every second, and at once when this candidate becomes the leader or stops
// being the leader. So a leader that led for less than a second may be missed. If several
// iterations run at once, each sends its own requests to the store.
func (e *Election) Changes(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		var lastErr error
		for first := true; ; first = false {
			e.mu.Lock()
			changed := e.changed
			e.mu.Unlock()
			now, err := e.Leader(ctx)
			if ctx.Err() != nil {
				return
			}
			if first || !now.sameTerm(last) || !sameError(err, lastErr) {
				if !yield(now, err) {
					return
				}
			}
			last, lastErr = now, err
			if !e.awaitLook(ctx, changed) {
				return
			}
		}
	}
}

// awaitLook waits until it is time to ask the store again. It returns false if ctx has ended.
func (e *Election) awaitLook(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// sameError reports whether two errors of the Leader method are of the same kind. If so, Changes
// yields only the first of them.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return errors.Is(a, ErrNoLeader) == errors.Is(b, ErrNoLeader) && errors.Is(a, padlock.ErrUnavailable) == errors.Is(b, padlock.ErrUnavailable)
}
