package padlock

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock/driver"
)

// A lock goes down through these files. Each of them calls only files that stand below it:
//
//	do.go                     the methods that use those of the next line
//	acquire.go, all.go        the methods that take one lock, or several
//	token.go                  a call with a token of the caller that may wait
//	taking.go, paths.go,      calls that make several attempts: for several names, for folders,
//	weight.go, slots*.go,     for permits
//	lockset.go
//	wait.go                   the wait: the line of the Locker, the queue of the store
//	lock.go, convert.go       what the holder can do
//	release.go, handover.go   the release, and the hand-over to a waiter
//	attempt.go                one token, one try at a time, its unknown outcome
//	call.go                   the time and the observers of a call
//	join.go                   the locks of a context
//	hold.go                   the state of a lock that is held
//	renew.go, lease.go,       the leases of all holds of the Locker
//	schedule.go
//	line.go                   the places of the waiters, and which waiter is next
//	base.go, observe.go       the Locker's mutex; events are delivered when it is unlocked

// Acquire takes the lock on name. It waits for the lock as long as ctx and Wait allow. If ctx has
// no deadline and Wait is not given, Acquire waits for ever, so most programs should set one of the
// two. Goroutines of one Locker get the lock in the order in which they asked for it.
//
// The lock is renewed until Release, unless NoRenewal is given.
//
// If Acquire gives up waiting, errors.Is(err, ErrHeld) is true if the name is known to be held, and
// errors.Is(err, ctx.Err()) is true if ctx has ended. If the store cannot be reached at the start,
// Acquire does not wait for it and returns ErrUnavailable: at once if the connection is refused, after
// 3 to 6 s if the server is silent. If the store becomes unreachable during the wait, Acquire waits up
// to 30 s for the store to come back.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return lockOf(l.acquire(ctx, name, method{op: OpAcquire}, opts))
}

// TryAcquire takes the lock on name if it is free. It never waits: if the name is held it returns
// ErrHeld at once. The option Wait has no effect.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return lockOf(l.acquire(ctx, name, method{op: OpAcquire, once: true}, opts))
}

// Adopt takes over the lock that key stands for, in the same mode and with a new fence. The Lock
// that was exported ends with ErrLost at its next request to the store. If the lock is gone, Adopt
// returns ErrLost; it never acquires a free name. If key belongs to another store, Adopt returns
// ErrInvalid. The options Wait and Shared have no effect. The other options count from now on, and
// not those with which the lock was taken: HoldAtMost, for example, must be given again.
func (l *Locker) Adopt(ctx context.Context, key Key, opts ...Option) (*Lock, error) {
	l.demand(ctx)
	if l.guarantees.Bound != driver.BoundToNothing && !l.guarantees.Detached {
		return nil, failed(OpAdopt, key.name, errors.ErrUnsupported)
	}
	if key.Token() == "" {
		return nil, failed(OpAdopt, key.name, errEmptyKey)
	}
	return lockOf(l.acquire(ctx, key.name, method{op: OpAdopt, once: true, replaces: &key}, opts))
}

// acquire takes the lock on name. It is the layer call: it reads the options, and reports to the
// observers how the call begins and, if it fails, how it ends. Thousands of goroutines may wait in
// acquire, so the attempt is on the heap, and the stack frame is small.
func (l *Locker) acquire(ctx context.Context, name string, m method, opts []Option) (*hold, error) {
	l.demand(ctx)
	a := new(attempt)
	a.method, a.l, a.ctx, a.set = m, l, ctx, l.cfg.defaults
	if len(opts) > 0 {
		a.set.change(opts, a.once, &l.guarantees)
	}
	if a.once {
		a.set.wait = 0
	}
	if l.cfg.observers != nil {
		a.observe(name)
	}
	var h *hold
	var err error
	switch {
	case a.set.paths:
		err = errPathSingle
	case a.set.weight != 0:
		err = errWeightSingle
	case a.set.slots != 0 && a.replaces == nil:
		h, err = a.takePermit(name)
	case !a.set.token.IsZero() && a.set.wait != 0:
		h, err = a.takeWithToken(name)
	default:
		if err = a.check(name); err == nil {
			h, err = a.take(name)
		}
	}
	if err != nil {
		return nil, a.refuse(name, err)
	}
	return h, nil
}
