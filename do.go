package padlock

import (
	"context"
	"errors"
	"slices"
)

// Do takes the lock on name as Acquire does, calls fn, and releases the lock when fn has returned.
// The context passed to fn ends when ctx ends or the lock ends, whichever is first; FenceFrom
// returns the fence from that context. Do waits for fn to return even if the lock is lost.
//
// Do returns the error of fn, joined with the error of Release if there is one. With ErrLost,
// ErrExpired or ErrMaxHold, the lock did not last until fn returned, so part of the work was not
// protected. With ErrUnavailable or ErrUncertain alone, the work was protected, and the store has
// not confirmed the release: the Locker goes on to release the lock in the background. Errors of
// this package are of type *Error. If fn panics, or calls runtime.Goexit, Do releases the lock, and
// the panic goes on.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	demandFunction(fn)
	h, err := l.acquire(ctx, name, method{op: OpAcquire, within: true}, opts)
	if err != nil {
		return err
	}
	// The release is deferred, so that a panic or Goexit in fn releases the lock too.
	result := errNoReturn
	defer func() {
		h.noteResult(result)
		released := h.giveUp(context.Background(), nil)
		l.endCalls(1)
		err = joinErrors(err, released)
	}()
	result = fn(h.context())
	return result
}

// TryDo is Do with Wait(0): it never waits. If the name is held, TryDo returns ErrHeld at once, and
// fn does not run. It is for work that another process does just as well, such as a job that every
// machine starts at the same time.
func (l *Locker) TryDo(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) error {
	return l.Do(ctx, name, fn, append(slices.Clip(opts), Wait(0))...)
}

var errNoReturn = errors.New("the function panicked or called runtime.Goexit")

// noteResult notes what the function of Do returned, for the event of the release.
func (h *hold) noteResult(err error) {
	if h.events != nil {
		h.locker.mu.Lock()
		h.events.result = err
		h.locker.unlock()
	}
}
