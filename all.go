package padlock

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// A Locks value holds the locks on several names that AcquireAll took together. Its methods are
// safe for concurrent use. A Locks value must not be copied. The zero Locks and a nil *Locks behave
// like locks that were released.
type Locks struct {
	_     noCopy
	set   lockSet // a zero Locks has no holds
	locks []*Lock // the Lock of each hold, sorted by name
}

// AcquireAll takes the locks on all names, or none of them. It sorts the names, leaves out
// repetitions, and takes one lock after the other. So two callers of AcquireAll never wait for each
// other in a circle. This protection is missing if a caller already holds a lock when it calls
// AcquireAll, for example from an earlier call.
//
// Wait and the deadline of ctx bound the wait for all names together. Wait(0) tries each name once.
// If AcquireAll cannot get one of the locks, or loses one while it waits for another, it releases
// the locks that it has, in reverse order, and returns the error. In that error, errors.As finds
// the *Error with the name, and the *HeldError with the holders. If the store does not confirm the
// releases within 250 ms, AcquireAll returns, and the Locker releases the locks in the background.
//
// The other options apply to each lock. The times of HoldAtLeast and HoldAtMost begin when all
// locks are held; the first leases begin earlier. If AcquireAll fails, it starts no CoolDown. It
// returns ErrInvalid if Slots is given, if names is empty, or if the store uses one lock for two of
// the names.
func (l *Locker) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Locks, error) {
	l.demand(ctx)
	all := &Locks{set: lockSet{l: l, ctx: ctx}}
	if err := all.set.takeAll(names, opts); err != nil {
		return nil, err
	}
	all.locks = make([]*Lock, len(all.set.holds))
	for i, h := range all.set.holds {
		all.locks[i], _ = lockOf(h, nil)
	}
	return all, nil
}

// DoAll takes the locks on all names as AcquireAll does, calls fn, and releases the locks when fn
// has returned. The context passed to fn ends when ctx ends, or as soon as one of the locks ends.
// FenceFrom returns the fence of the last name in alphabetical order; GrantsFrom returns all
// fences.
//
// DoAll returns the error of fn. If a lock did not last until fn returned, DoAll joins the error of
// that lock to the error of fn. If fn panics, DoAll releases the locks, and the panic goes on.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	l.demand(ctx)
	demandFunction(fn)
	s := &lockSet{l: l, ctx: ctx, within: true}
	if err := s.takeAll(names, opts); err != nil {
		return err
	}
	// The release is deferred, so that a panic or Goexit in fn releases the locks too.
	result := errNoReturn
	defer func() {
		for _, h := range s.holds {
			h.noteResult(result)
		}
		released := s.giveUp(nil)
		l.endCalls(len(s.holds))
		err = joinErrors(err, released)
	}()
	result = fn(s.context())
	return result
}

// list returns the locks of k. If k is nil or zero, there are none.
func (k *Locks) list() []*Lock {
	if k == nil {
		return nil
	}
	return k.locks
}

// Names returns the names that are locked, sorted and without repetitions.
func (k *Locks) Names() []string {
	var names []string
	for _, lock := range k.list() {
		names = append(names, lock.Name())
	}
	return slices.Compact(names) // with Weight there are several permits of the name
}

// Lock returns the lock on name, or nil if name is not one of Names. If the program releases only
// this lock, Locks.Context ends, but the other locks stay held.
func (k *Locks) Lock(name string) *Lock {
	for _, lock := range k.list() {
		if lock.Name() == name {
			return lock
		}
	}
	return nil
}

// Slots returns the numbers of the permits that were taken with Weight, in the order of the locks. Without
// Weight there are none.
func (k *Locks) Slots() []int {
	var slots []int
	for _, lock := range k.list() {
		if slot := lock.Slot(); slot >= 0 {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Fences returns the fence of each name. All fences are 0 if the store has no fences.
func (k *Locks) Fences() map[string]uint64 {
	fences := make(map[string]uint64, len(k.list()))
	for _, lock := range k.list() {
		fences[lock.Name()] = lock.Fence()
	}
	return fences
}

// Context returns a context that ends as soon as one of the locks ends. context.Cause returns the
// *Error of that lock. In all other respects, the context is like that of Lock.Context.
func (k *Locks) Context() context.Context {
	if len(k.list()) == 0 {
		return noHold.context()
	}
	return k.set.context()
}

// Join returns a context that ends when ctx ends, or as soon as one of the locks ends. In all other
// respects, it is like Lock.Join. FenceFrom returns the fence of the last name in alphabetical
// order; Fences has all of them.
func (k *Locks) Join(ctx context.Context) (context.Context, context.CancelFunc) {
	h := noHold
	if locks := k.list(); len(locks) > 0 {
		h = locks[len(locks)-1].holdOf()
	}
	return joinContexts(&joinedContext{ctx, h}, k.Context())
}

// Remaining calls Lock.Remaining for each lock, and returns the shortest time.
func (k *Locks) Remaining() time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, lock := range k.list() {
		left = min(left, lock.Remaining())
	}
	if len(k.list()) == 0 {
		return 0
	}
	return left
}

// Check calls Lock.Check for one lock after the other. It stops at the first error and returns that
// error.
func (k *Locks) Check(ctx context.Context) error {
	if len(k.list()) == 0 {
		return noHold.check(ctx)
	}
	for _, lock := range k.list() {
		if err := lock.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Release releases all locks in reverse order, and joins their errors. Each of the joined errors is
// an *Error with the name of its lock; see Lock.Release. Release returns within about 15 seconds
// even if the store does not reply: after the first release without a reply, the Locker releases
// the other locks in the background. A second Release does nothing and returns the same error.
func (k *Locks) Release(opts ...ReleaseOption) error {
	if len(k.list()) == 0 {
		return noHold.giveUp(context.Background(), nil)
	}
	err := k.set.giveUp(opts)
	runtime.KeepAlive(k) // otherwise a Lock could count as forgotten while it is released
	return err
}
