package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// Acquire takes the lock on name. It waits for the lock as long as ctx and Wait allow. If ctx has
// no deadline and Wait is not given, Acquire waits for ever, so most programs should set one of the
// two. Goroutines of one Locker get the lock in the order in which they asked for it.
//
// The lock is renewed until Release, unless NoRenewal is given.
//
// If Acquire gives up waiting, errors.Is(err, ErrHeld) is true if the name is known to be held, and
// errors.Is(err, ctx.Err()) is true if ctx has ended. If the store cannot be reached at the start,
// Acquire returns ErrUnavailable at once. If the store becomes unreachable during the wait, Acquire
// waits 30 s for it to come back.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return handle(l.acquire(ctx, name, call{op: OpAcquire}, opts))
}

// TryAcquire takes the lock on name if it is free. It never waits: if the name is held it returns
// ErrHeld at once. Wait is ignored.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return handle(l.acquire(ctx, name, call{op: OpAcquire, once: true}, opts))
}

// Do takes the lock on name as Acquire does, calls fn, and releases the lock when fn has returned.
// The context passed to fn ends with ctx and with the lock; FenceFrom returns the fence from that
// context. Do waits for fn to return even if the lock is lost.
//
// Do returns the error of fn. If the lock did not last until fn returned, part of the work was not
// protected, and Do joins the error of Release to the error of fn. Errors of this package are of
// type *Error.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	h, err := l.acquire(ctx, name, call{op: OpAcquire, within: true}, opts)
	if err != nil {
		return err
	}
	// Deferred, so that a panic or Goexit in fn releases the lock too.
	defer func() {
		released := h.giveUp(nil)
		l.mu.Lock()
		l.attemptOver()
		l.unlock()
		switch {
		case released == nil:
		case err == nil:
			err = released
		default:
			err = &joined{err, released}
		}
	}()
	return fn(h.context())
}

// Adopt takes over the lock that key stands for, in the same mode and with a new fence. The
// exporter's lock ends with ErrLost when the exporter next sends a request for it. If the lock is
// gone, Adopt returns ErrLost; it never acquires a free name. If key belongs to another store,
// Adopt returns ErrInvalid. Wait and Shared are ignored.
func (l *Locker) Adopt(ctx context.Context, key Key, opts ...Option) (*Lock, error) {
	if l.guarantees.Bound != driver.ToNothing && !l.guarantees.Detached {
		return nil, failed(OpAdopt, key.name, errors.ErrUnsupported)
	}
	if key.token == "" {
		return nil, failed(OpAdopt, key.name, errEmptyKey)
	}
	return handle(l.acquire(ctx, key.name, call{op: OpAdopt, once: true, replaces: &key}, opts))
}

// acquire keeps its frame small: thousands of goroutines may wait in it.
func (l *Locker) acquire(ctx context.Context, name string, c call, opts []Option) (*hold, error) {
	h, waiting, err := l.begin(ctx, name, &c, opts)
	if waiting == nil {
		return h, err
	}
	if waiting.set.slots != 0 && waiting.replaces == nil {
		return waiting.takePermit(name)
	}
	if err := waiting.wait(); err != nil {
		return nil, waiting.refused(name, err)
	}
	if waiting.events != nil {
		waiting.announce()
	}
	return waiting.h, nil
}

// begin tries to take the lock at once. If the caller has to wait, begin returns an attempt. With
// Slots, begin also returns an attempt if it has not tried every permit. Only an attempt that is
// returned is on the heap.
//
//go:noinline
func (l *Locker) begin(ctx context.Context, name string, c *call, opts []Option) (*hold, *attempt, error) {
	a := attempt{l: l, ctx: ctx, call: *c, set: l.cfg.defaults}
	if len(opts) > 0 {
		a.set = a.set.with(opts)
	}
	if a.once {
		a.set.wait = 0
	}
	if a.set.slots != 0 && a.replaces == nil {
		return a.beginPermit(name)
	}
	if l.cfg.observers != nil {
		a.observe(name)
	}
	err := a.prepare(name)
	if err == nil {
		wait := false
		if wait, err = a.take(); wait {
			onHeap := a
			return nil, &onHeap, nil
		}
	}
	if err != nil {
		return nil, nil, a.refused(name, err)
	}
	if a.events != nil {
		a.announce()
	}
	return a.h, nil, nil
}
