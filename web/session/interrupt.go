package session

import (
	"context"
	"errors"
	"sync"
)

// An interruption ends a wait for the session's lock when the answer begins. http.TimeoutHandler
// writes its answer while the handler may still wait for the lock; without the interruption that
// answer would wait too.
type interruption struct {
	mu      sync.Mutex
	closing bool                    // the answer is about to begin
	cancel  context.CancelCauseFunc // cancels the wait under way; nil if there is none
}

var errAnswerBegan = errors.New("the answer began")

// beginWait starts a wait. The session's mutex is held, so there is only one wait at a time.
func (i *interruption) beginWait(ctx context.Context) (context.Context, func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	i.cancel = cancel
	if i.closing {
		cancel(errAnswerBegan)
	}
	return ctx, func() {
		i.mu.Lock()
		i.cancel = nil
		i.mu.Unlock()
		cancel(nil)
	}
}

// stop ends the wait under way, and any wait that begins before resume is called.
func (i *interruption) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closing = true
	if i.cancel != nil {
		i.cancel(errAnswerBegan)
	}
}

func (i *interruption) resume() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closing = false
}

// interrupted returns ErrClosed if the wait ended because the answer began, else err.
func interrupted(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errAnswerBegan {
		return ErrClosed
	}
	return err
}
