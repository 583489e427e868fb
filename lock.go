package padlock

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Lock is one hold on a name, from Acquire to Release. Its methods are safe for concurrent use. A
// Lock must not be copied. The zero Lock and a nil *Lock behave like a lock that was released.
//
// While the process runs, Context ends before the lease can run out. This process counts the lease
// from the instant just before it sent its request. Context ends a little before the lease, because
// clocks run at different rates. While the machine is suspended, the time of the lease goes on. But
// no lock can protect a write if the process is paused after it has looked at the clock and before
// it writes. So send Fence with the write, and check it where the data is.
//
// If a Lock is garbage-collected without Release or Export, it stays held and renewed until its
// HoldAtMost or Locker.Close, because its work may still be running. Observers get EventForgotten.
// Without an observer, some of these locks are named in slog.Default.
type Lock struct {
	_ noCopy
	h *hold // nil in the zero Lock
}

// noCopy makes go vet report copies. A copy could be in use while the original is
// garbage-collected. Then the hold would count as forgotten.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// lockOf returns the Lock of a hold, or err. As a rule, the Lock is a part of the hold. With an
// observer, and for one lock in sampleEvery, it is a separate allocation. Then the garbage collector
// can find that the caller dropped the Lock, although the Locker keeps the hold alive for renewal;
// see forgotten.go.
func lockOf(h *hold, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	if h.events != nil || h.locker.sample.Add(1)%sampleEvery == 1 {
		h.locker.mu.Lock()
		defer h.locker.mu.Unlock()
		return h.watchedLock(), nil
	}
	h.self.h = h
	return &h.self, nil
}

// holdOf returns the hold of k, or noHold if k is nil or the zero Lock. The methods are on *Lock,
// not on *hold, so that a deferred call or a method value keeps the Lock from being
// garbage-collected.
func (k *Lock) holdOf() *hold {
	if k == nil || k.h == nil {
		return noHold
	}
	return k.h
}

// noHold is the hold of the zero Lock.
var noHold = func() *hold {
	h := &hold{
		locker: &Locker{clock: driver.SystemClock()}, terms: terms{ttl: DefaultTTL}, reports: reports{from: context.Background()}, renewals: renewals{index: -1}, cause: ErrReleased,
	}
	h.released.Store(&releaseState{err: failed(OpRelease, "", ErrReleased)})
	return h
}()

// String returns the name of the lock, and the slot if there is one.
func (k *Lock) String() string {
	if slot := k.Slot(); slot >= 0 {
		return fmt.Sprintf("slot %d of %s", slot, quote(k.Name()))
	}
	return "lock on " + quote(k.holdOf().name)
}

// Format writes the text of String for all verbs. Printing the fields of a Lock would be a data
// race.
func (k *Lock) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue returns the text of String.
func (k *Lock) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Name returns the name that is locked, without the number of the slot.
func (k *Lock) Name() string { return withoutSlot(k.holdOf().name) }

// Slot returns the number of the permit, from 0 to n-1, or -1 if the lock was taken without Slots.
func (k *Lock) Slot() int { return slotOf(k.holdOf().name) }

// Shared reports whether the lock is shared, as far as this process knows. Another program that
// knows the token can demote the lock. This process learns of that by its next renewal, Check or
// Extend, if the store can report the mode. Until then, Shared reports false although the lock is
// shared. If no other program knows the token, the result false is certain.
func (k *Lock) Shared() bool { return k.holdOf().isShared() }

// Fence returns the fencing token, a number that grows with each exclusive grant of this name. Send
// it with every write and let the resource refuse smaller ones; see package fence. Fence returns 0
// if the store has no fences.
func (k *Lock) Fence() uint64 { return k.holdOf().fencing() }

// Remaining returns the time until Context ends, by the clock of this process, if the lease is not
// renewed again. It sends no request; see Check. It returns 0 if the lock is over, and the longest
// Duration if the lock has no lease.
func (k *Lock) Remaining() time.Duration { return k.holdOf().remaining() }

// Context returns a context that ends when the lock ends. context.Cause returns the reason:
// ErrLost, ErrExpired, ErrMaxHold, ErrReleased or ErrClosed. The context has the values of the
// context given to Acquire, but does not end with it.
//
// If the process or the machine was paused for longer than the lease, Err of this context returns
// an error at once when the program goes on. Done may be closed a moment later, and derived
// contexts may end a moment later. So a loop that must not do one step too many calls Err of this
// context before each step.
//
// The function that Do runs gets a different context. It ends when the lock ends, or when the
// context given to Do ends, whichever is first.
func (k *Lock) Context() context.Context { return k.holdOf().context() }

// Join returns a context that ends when ctx ends or the lock ends, by a loss or by Release,
// whichever is first, and its cancel function. It is for work that has a context of its own, such
// as an HTTP request, and must stop when the lock is lost. The context has the values of ctx, and
// FenceFrom returns the fence of the lock from it. If the lock has ended it, context.Cause returns
// the reason, as for Context.
//
// The cancel function frees what Join has allocated, and does not release the lock. Call it when
// the work is done.
func (k *Lock) Join(ctx context.Context) (context.Context, context.CancelFunc) {
	demandContext(ctx)
	return joinContexts(&joinedContext{ctx, k.holdOf()}, k.Context())
}

// Check asks the store whether the lock is still held. The reply may be outdated when it arrives:
// use it as advice, and rely on Fence. Nil means that the lock is held. ErrLost, ErrExpired and
// ErrReleased mean that it is not; see Release for the difference between ErrLost and ErrExpired.
// After any other error, it is not known whether the lock is held.
func (k *Lock) Check(ctx context.Context) error { return k.holdOf().check(ctx) }

// Extend extends the lease, so that it lasts at least ttl from now; 0 stands for the TTL with which
// the lock was taken. Extend never shortens the lease, and never brings back a lock whose lease has
// run out. After ErrExpired and ErrLost the lock is gone; see Release for the difference. Every
// other error leaves the lock as it was.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	return k.holdOf().extend(ctx, ttl)
}

// Promote makes a shared lock exclusive, with a new fence. It waits until the other readers have
// left or ctx ends; meanwhile no new reader gets in. If another reader is being promoted already,
// each of the two would wait for the other, so Promote returns ErrPromotionConflict at once.
//
// If a Demote has got no reply, Promote first waits up to half a second, so that the demotion
// cannot arrive after the promotion.
//
// After ErrExpired and ErrLost the lock is gone. After any other error of Promote, the lock is
// still shared. If Guarantees().Promotion is PromotionRegrant, another holder may have had an
// exclusive lock during the promotion: read again all that you read under the shared lock.
// Promoting an exclusive lock does nothing. An exported lock cannot be promoted (ErrInvalid).
func (k *Lock) Promote(ctx context.Context) error { return k.holdOf().promotion(ctx) }

// Demote makes an exclusive lock shared and keeps its fence. If Guarantees().Promotion is
// PromotionAtomic, the name is never free during the change. Demoting a shared lock does nothing.
//
// The lock counts as shared from the beginning of the call, because readers may come in before the
// reply arrives. After ErrUncertain the lock still counts as shared. After any other error the lock
// is exclusive as before. An exported lock cannot be demoted (ErrInvalid).
func (k *Lock) Demote(ctx context.Context) error { return k.holdOf().demotion(ctx) }

// Export returns a key with which another process can take the lock over, by Locker.Adopt. The lock
// stays held and renewed until then. When another process has adopted the lock, this Lock ends with
// ErrLost. Close does not release an exported lock. The key is a secret. Stats does not count an
// exported lock that was taken with NoRenewal, unless there is an observer, or Context or Join was
// called.
//
// Export asks the store for its id and puts the id into the key, so that a Locker for another store
// refuses the key. If the store does not reply, or ctx ends first, the key contains no id. Such a
// key is valid, but a Locker for another store does not refuse it. If the store binds its locks to
// a process or a connection, Export returns errors.ErrUnsupported, unless the lock was taken with
// Detached.
func (k *Lock) Export(ctx context.Context) (Key, error) {
	key, err := k.holdOf().export(ctx)
	runtime.KeepAlive(k) // otherwise the Lock could count as forgotten before it is exported
	return key, err
}

// File returns a duplicate of the open file that carries the lock, for a child process. The caller
// closes it. While any copy of this file is open the name stays taken, even after Release and after
// the death of this process. If the store does not bind its locks to files, File returns
// errors.ErrUnsupported.
func (k *Lock) File() (*os.File, error) { return k.holdOf().file() }

// Release releases the lock and ends Context. It takes no context, because a caller whose context
// was cancelled must still release its lock. The lease is renewed until observers have
// EventReleasing. Then Release ends a renewal under way. It returns within about 15 seconds even if the
// store does not reply, and never removes the lock of another holder.
//
// Release returns nil if the lock was held until now. The errors are:
//
//   - ErrExpired: the lease had run out, and nobody has taken the lock since;
//   - ErrLost: another client has taken the lock, or the store cannot tell;
//   - ErrMaxHold: the time of HoldAtMost was over before the release;
//   - ErrUncertain, ErrUnavailable: the store did not confirm the release. The Locker repeats it in
//     the background until the lease has ended;
//   - ErrInvalid: the cool-down is out of range. The lock is released, and cools down for the
//     nearest time that is possible. If the cool-down was negative, there is none;
//   - errors.ErrUnsupported: the store has no cool-downs. The lock is released without one.
//
// The lock is over after every error. A second Release does nothing and returns the result of the
// first one.
func (k *Lock) Release(opts ...ReleaseOption) error {
	err := k.holdOf().giveUp(context.Background(), opts)
	runtime.KeepAlive(k) // otherwise the Lock could count as forgotten while it is released
	return err
}
