package padlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Locks are the locks on several names that AcquireAll took together. Its methods are safe for
// concurrent use. Locks must not be copied.
type Locks struct {
	_     noCopy
	set   lockSet // its holds are empty in the zero Locks
	locks []*Lock // sorted by name
	room  [setRoom]*Lock
}

// AcquireAll takes the locks on all names, or none of them. It sorts the names, leaves out
// repetitions, and takes one lock after the other. So two callers of AcquireAll never wait for each
// other in a circle, whatever the order in which they give the names. This protection is missing if
// a caller already holds a lock when it calls AcquireAll, for example from an earlier call.
//
// Wait and the deadline of ctx bound the wait for all names together. Wait(0) tries each name once.
// If it cannot get one of the locks, AcquireAll releases the locks that it has, in reverse order,
// and returns the error of that lock. errors.As finds the *Error with the name, and the *HeldError
// with the holders. The same happens if a lock is lost while AcquireAll waits for another one.
//
// The other options apply to each lock. HoldAtLeast counts from the moment when all locks are held.
// There is a CoolDown only if all locks were held. If Slots is given, or the list of names is
// empty, the error is ErrInvalid. If the store keeps two of the names in the same place, so that
// they share one lock, AcquireAll returns ErrInvalid.
func (l *Locker) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Locks, error) {
	all := &Locks{}
	all.set.init(l, ctx, call{op: OpAcquire}, opts)
	if err := all.set.takeAll(names); err != nil {
		return nil, err
	}
	all.locks = all.room[:0]
	for _, h := range all.set.holds {
		all.locks = append(all.locks, h.handle())
	}
	return all, nil
}

// DoAll takes the locks on all names as AcquireAll does, calls fn, and releases the locks when fn
// has returned. The context passed to fn ends when ctx ends, or when the first lock ends. FenceFrom
// returns the fence of the last name in the order of the alphabet; FencesFrom returns all fences.
//
// DoAll returns the error of fn. If a lock did not last until fn returned, DoAll joins its error to
// the error of fn.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(ctx context.Context) error, opts ...Option) (err error) {
	s := &lockSet{}
	s.init(l, ctx, call{op: OpAcquire, within: true}, opts)
	if err := s.takeAll(names); err != nil {
		return err
	}
	// Deferred, so that a panic or Goexit in fn releases the locks too.
	defer func() {
		released := s.giveUp(nil)
		l.mu.Lock()
		for range s.holds {
			l.attemptOver()
		}
		l.unlock()
		switch {
		case released == nil:
		case err == nil:
			err = released
		default:
			err = &joined{err, released}
		}
	}()
	return fn(s.context())
}

// list returns the locks, or none for the zero Locks.
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
	return names
}

// Lock returns the lock on name, or nil if name is not one of Names. If this lock alone is
// released, the Context of all of them ends.
func (k *Locks) Lock(name string) *Lock {
	for _, lock := range k.list() {
		if lock.Name() == name {
			return lock
		}
	}
	return nil
}

// Fences returns the fence of each name. They are 0 if the store has no fences.
func (k *Locks) Fences() map[string]uint64 {
	fences := make(map[string]uint64, len(k.list()))
	for _, lock := range k.list() {
		fences[lock.Name()] = lock.Fence()
	}
	return fences
}

// Context returns a context that ends when the first of the locks ends. context.Cause returns the
// *Error of that lock. In all other respects it is like the context of a Lock.
func (k *Locks) Context() context.Context {
	if len(k.list()) == 0 {
		return noHold.context()
	}
	return k.set.context()
}

// Remaining returns the shortest Remaining of the locks.
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

// Check asks the store whether all locks are still held, one after the other. It returns the error
// of the first one that is not, as Lock.Check does.
func (k *Locks) Check(ctx context.Context) error {
	for _, lock := range k.list() {
		if err := lock.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Release releases all locks in reverse order, and returns their errors joined. Each of them is an
// *Error with the name of the lock; see Lock.Release. A second Release returns the same.
func (k *Locks) Release(opts ...ReleaseOption) error {
	if len(k.list()) == 0 {
		return noHold.giveUp(nil)
	}
	err := k.set.giveUp(opts)
	runtime.KeepAlive(k.locks) // otherwise a Lock could count as forgotten while it is released
	return err
}

// FencesFrom returns the fence of every lock whose context ctx descends from, by name. If two of
// these locks have the same name, the fence is that of the inner one.
func FencesFrom(ctx context.Context) map[string]uint64 {
	fences := make(map[string]uint64)
	for h := lockFrom(ctx); h != nil; h = h.outer {
		name := withoutSlot(h.name)
		if fence := h.fencing(); fence != 0 && fences[name] == 0 {
			fences[name] = fence
		}
	}
	return fences
}

// lockSet is one call for several names, and then its holds. Each hold is the outer hold of the
// next one, as if calls of Do were nested.
type lockSet struct {
	call
	l     *Locker
	ctx   context.Context // the caller's
	set   settings
	start driver.Instant // only if Wait is given
	holds []*hold        // in the order in which they were taken
	room  [setRoom]*hold // memory for holds, up to setRoom of them

	requests []driver.Request // the request of each hold; only if HoldAtLeast is given

	mu      sync.Mutex      // guards lasting; it is locked before Locker.mu
	lasting context.Context // ends when the first hold is over; in DoAll, it also ends with ctx
}

// setRoom is how many names a lockSet can have before its slices need memory outside of it.
const setRoom = 4

func (s *lockSet) init(l *Locker, ctx context.Context, c call, opts []Option) {
	s.call, s.l, s.ctx, s.set = c, l, ctx, l.cfg.defaults
	if len(opts) > 0 {
		s.set = s.set.with(opts)
	}
	s.holds = s.room[:0]
}

// takeAll takes all locks, or none.
func (s *lockSet) takeAll(names []string) error {
	var room [setRoom]string // memory for the sorted names
	names = append(room[:0], names...)
	slices.Sort(names)
	names = slices.Compact(names)
	if err := s.check(names); err != nil {
		return failed(s.op, "", err)
	}
	if s.set.wait > 0 {
		s.start = s.l.clock.Now()
	}
	for _, name := range names {
		if err := s.takeNext(name); err != nil {
			s.abandon()
			return err
		}
	}
	err := s.firstLoss()
	if err == nil {
		err = s.holdAtLeast()
	}
	if err != nil {
		s.abandon()
	}
	return err
}

// firstLoss returns the error of a hold that ended while s took the others, or nil.
func (s *lockSet) firstLoss() error {
	for _, h := range s.holds {
		if h.usable.Load() != 0 { // h is not over
			continue
		}
		s.l.mu.Lock()
		cause := h.cause
		s.l.mu.Unlock()
		return failed(OpHold, h.name, cause)
	}
	return nil
}

// check finds the errors that no single name has.
func (s *lockSet) check(names []string) error {
	switch {
	case len(names) == 0:
		return fmt.Errorf("%w: no name is given", ErrInvalid)
	case s.set.slots != 0:
		return fmt.Errorf("%w: Slots is for one name", ErrInvalid)
	}
	if err := s.set.check(&s.l.guarantees); err != nil {
		return err
	}
	where := s.l.locator
	if where == nil {
		return nil
	}
	at := make(map[string]string, len(names))
	for _, name := range names {
		place, err := where.Location(name)
		switch other, taken := at[place]; {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil:
			return err
		case taken:
			return fmt.Errorf("%w: the names %s and %s share one lock in this store", ErrInvalid, quote(other), quote(name))
		}
		at[place] = name
	}
	return nil
}

// takeNext takes the lock on name, in addition to the locks that s has.
func (s *lockSet) takeNext(name string) error {
	a := attempt{l: s.l, ctx: s.ctx, call: s.call, set: s.set, inside: s.innermost()}
	a.set.holdAtLeast = 0 // see holdAtLeast
	if a.set.wait > 0 {
		a.set.wait = max(0, s.set.wait-s.l.clock.Now().Sub(s.start))
	}
	if s.l.cfg.observers != nil {
		a.ctx = s.withValues(a.ctx)
		a.observe(name)
	}
	wait, err := false, a.prepare(name)
	if err == nil {
		wait, err = a.askOnce()
	}
	if wait {
		return s.waitFor(a, name)
	}
	return s.addTaken(&a, name, err)
}

// waitFor lets the attempt wait in the line. The wait also ends when a hold of s is over.
func (s *lockSet) waitFor(a attempt, name string) error {
	waiting, stop := s.until(a.ctx)
	defer stop(nil)
	a.ctx = waiting
	err := s.addTaken(&a, name, a.waitForLock())
	if cause := context.Cause(waiting); err != nil && cause != nil && s.ctx.Err() == nil {
		return cause // a hold of s is over
	}
	return err
}

// addTaken adds the hold of an attempt that succeeded. If err is not nil, it ends the attempt.
func (s *lockSet) addTaken(a *attempt, name string, err error) error {
	if err != nil {
		return a.refused(name, err)
	}
	if a.unannounced() {
		a.announce()
	}
	s.holds = append(s.holds, a.h)
	if s.set.holdAtLeast != 0 {
		s.requests = append(s.requests, a.request)
	}
	return nil
}

// innermost returns the innermost hold, or nil.
func (s *lockSet) innermost() *hold {
	if len(s.holds) == 0 {
		return nil
	}
	return s.holds[len(s.holds)-1]
}

// until returns a context that ends with ctx, and when the first hold of s is over.
func (s *lockSet) until(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	for _, h := range s.holds {
		h.whenOver(stop)
	}
	return ctx, stop
}

// withValues returns ctx with the values that observers added to the context of the innermost hold.
func (s *lockSet) withValues(ctx context.Context) context.Context {
	h := s.innermost()
	if h == nil {
		return ctx
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return lockContext{valuesBefore{ctx, context.WithoutCancel(h.from)}, h}
}

// valuesBefore is a context that takes its values from another context first. The other context
// must be one that never ends (context.WithoutCancel). Otherwise context.Cause would find its
// cause.
type valuesBefore struct {
	context.Context
	values context.Context
}

func (c valuesBefore) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func (s *lockSet) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasting == nil {
		ctx := s.ctx
		if !s.within {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, _ = s.until(ctx) // when the locks are released, this context ends and frees what it needs
		s.lasting = s.withValues(ctx)
	}
	return s.lasting
}

// holdAtLeast repeats the requests of all holds with AtLeast, if HoldAtLeast is given. If AtLeast
// were in the first requests and a later name were refused, the earlier names would stay taken. If
// the caller gives up while holdAtLeast runs, the caller still gets all locks. So no name stays
// taken without the others.
func (s *lockSet) holdAtLeast() error {
	if s.set.holdAtLeast == 0 {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return failed(s.op, s.holds[0].name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), driver.MaxSilence)
	defer cancel()
	for i, h := range s.holds {
		if err := h.endCause(); err != nil {
			return failed(s.op, h.name, err)
		}
		r := s.requests[i]
		r.AtLeast = s.set.holdAtLeast
		if err := r.Validate(&s.l.guarantees); err != nil {
			return failed(s.op, h.name, err)
		}
		for try := 0; ; try++ {
			g, err := s.l.store.Acquire(ctx, r)
			if err == nil && g.Fence != h.fencing() { // the lease had ended, and this is another hold
				err = ErrLost
			}
			if err == nil {
				break
			}
			if definite(err) || try == len(retryAfter) || s.l.sleep(ctx, retryAfter[try]) != nil {
				return failed(s.op, h.name, callerError(s.ctx, err))
			}
		}
	}
	return nil
}

// abandon releases the holds of a call that failed.
func (s *lockSet) abandon() {
	for _, h := range slices.Backward(s.holds) {
		h.giveBack(context.Background(), 0)
		if s.within {
			s.l.mu.Lock()
			s.l.attemptOver()
			s.l.mu.Unlock()
		}
	}
}

// giveUp releases all holds.
func (s *lockSet) giveUp(opts []ReleaseOption) error {
	var err error
	for _, h := range slices.Backward(s.holds) {
		switch e := h.giveUp(opts); {
		case e == nil:
		case err == nil:
			err = e
		default:
			err = &joined{err, e}
		}
	}
	return err
}
