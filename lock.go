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

// A Lock is one hold on a name, from Acquire to Release. Its methods are safe
// for concurrent use. A Lock must not be copied. The zero Lock, and nil, are a
// lock that was released.
//
// While the process runs, Context ends before the lease can have ended by
// time: the lease is counted from before the request that granted it, less a
// margin for clocks that run at different rates, and suspended time counts. No
// lock can do that for a process that is paused between a look at the clock and
// a write: for that there is Fence, checked where the writing happens.
//
// If a Lock is garbage-collected without Release or Export, it stays held and
// renewed until its MaxHold or Locker.Close, because its work may still be
// running. Logger and OnEvent report it (EventForgotten).
type Lock struct {
	_ noCopy
	h *hold // nil in the zero Lock
}

// noCopy makes go vet report copies. A copy would be a second handle on a hold
// that counts as forgotten when the first is garbage.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// handle returns the Lock of a hold. The Locker keeps the hold itself to renew
// it, so only a handle apart from the hold shows that the caller has let go.
// That costs an allocation and work for the collector, and is done only if
// somebody hears of events.
func handle(h *hold, err error) (*Lock, error) {
	if err != nil {
		return nil, err
	}
	if h.events != nil {
		return h.watchedHandle(), nil
	}
	h.self.h = h
	return &h.self, nil
}

// watchedHandle is a function of its own so that handle is small enough to be
// inlined.
func (h *hold) watchedHandle() *Lock {
	lock := &Lock{h: h}
	runtime.AddCleanup(lock, (*hold).forgotten, h)
	return lock
}

// of returns the hold. All methods are on *Lock, and not on what it points to,
// so that a deferred call and a method value keep the Lock from being collected.
func (k *Lock) of() *hold {
	if k == nil || k.h == nil {
		return noHold
	}
	return k.h
}

// noHold is the hold of the zero Lock.
var noHold = func() *hold {
	h := &hold{
		locker: &Locker{clock: driver.SystemClock()}, ttl: DefaultTTL, from: context.Background(), index: -1, cause: ErrReleased,
	}
	h.released.Store(&releaseState{err: failed(OpRelease, "", ErrReleased)})
	return h
}()

// String names the lock, and hides the secret that it is held by.
func (k *Lock) String() string { return "lock on " + quote(k.of().name) }

// Format hides the secret from all verbs of package fmt.
func (k *Lock) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue hides the secret from logs.
func (k *Lock) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Name returns the name that is locked.
func (k *Lock) Name() string { return k.of().name }

// Shared reports whether the lock is shared, as far as this process knows. It
// never reports false while readers may be in, except when another program that
// knows the token demoted the lock: that shows after the next renewal, Check or
// Extend if the store can tell.
func (k *Lock) Shared() bool { return k.of().isShared() }

// Fence returns the fencing token: a number that grows with each exclusive
// grant of this name. Send it with every write and let the resource refuse
// smaller ones; see package fence. It is 0 if the store has none.
func (k *Lock) Fence() uint64 { return k.of().fencing() }

// Remaining returns how long the lock is good for if nothing renews it, by
// this process's own clock: until Context ends. It is 0 when that is over, and
// the longest Duration when the lock has no lease.
func (k *Lock) Remaining() time.Duration { return k.of().remaining() }

// Expired reports, by this process's own clock, whether the lock is over:
// expired, lost or released. It sends no request; see Check.
func (k *Lock) Expired() bool { return k.of().expired() }

// Context returns a context with the values of the one given to Acquire, which
// ends when the lock does. context.Cause says why: ErrLost, ErrMaxHold or
// ErrReleased. It does not end with the context given to Acquire, which bounds
// the wait; the one that Do passes on ends with either.
func (k *Lock) Context() context.Context { return k.of().context() }

// Check asks the store whether the lock is still held. The answer is old when
// it arrives: it is advice, Fence is the guarantee. Nil is yes; ErrLost,
// ErrExpired and ErrReleased are no; after every other error it is not known.
func (k *Lock) Check(ctx context.Context) error { return k.of().check(ctx) }

// Extend makes the lease last at least ttl from now; 0 stands for the TTL with
// which the lock was taken. It never shortens it. ErrExpired and ErrLost mean
// that the lock is gone; after another error it is as good as before.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error { return k.of().extend(ctx, ttl) }

// Promote makes a shared lock exclusive, with a new fence. It waits until the
// other readers have left, as long as ctx lets it; new readers are kept out
// meanwhile. If another reader is being promoted already, each would wait for
// the other: the answer is ErrPromotionConflict at once.
//
// A failed promotion leaves the shared lock as it was, or the error answers
// errors.Is for ErrLost and the lock is over. Where Guarantees().Promotion is
// Regrant, somebody else may have come between: then the fence has grown by
// more than this grant, and what was read before must be read again. Promoting
// an exclusive lock does nothing. An exported lock keeps its mode (ErrInvalid).
func (k *Lock) Promote(ctx context.Context) error { return k.of().promotion(ctx) }

// Demote makes an exclusive lock shared, without a moment in which it is
// neither where Guarantees().Promotion is Atomic, and keeps its fence.
// Demoting a shared lock does nothing.
//
// From the call on the lock counts as shared, because readers may come in
// before the answer is here. After ErrUncertain it stays so; after another error
// it is exclusive as before. An exported lock keeps its mode (ErrInvalid).
func (k *Lock) Demote(ctx context.Context) error { return k.of().demotion(ctx) }

// Export returns a key with which another process takes the lock over, by Locker.Adopt. Until then
// this lock stays as it is and is renewed; the adoption ends it (ErrLost). Close leaves an exported
// lock alone. The key is a secret.
//
// Export asks the store for its id, so that the key is refused at another store. If ctx ends, or
// the store cannot be asked, the key is good all the same, and is not compared. A store whose locks
// are bound to a process or a connection returns errors.ErrUnsupported.
func (k *Lock) Export(ctx context.Context) (Key, error) {
	key, err := k.of().export(ctx)
	runtime.KeepAlive(k) // it is not forgotten before it is exported
	return key, err
}

// File returns a duplicate of the open file that carries the lock, to be given
// to a child process; the caller closes it. While any copy of it is open the
// name stays taken: beyond Release, and beyond the death of this process. A
// store whose locks are not bound to a file answers errors.ErrUnsupported.
func (k *Lock) File() (*os.File, error) { return k.of().file() }

// Release gives the lock back, and with it ends Context. It takes no context:
// a cancelled caller must release too. It stops renewal first and waits for
// one under way, and returns within about 15 seconds even if the store is
// silent.
//
// Nil means that the lock was held until now. ErrExpired: the lease had run
// out, and nobody took the lock meanwhile. ErrLost: somebody did, or it is not
// known. ErrMaxHold: the time of MaxHold was over before. ErrUncertain or
// ErrUnavailable: the store did not confirm; the release is tried again in the
// background until the lease has ended. It never removes anybody else's lock.
//
// A second Release does nothing and returns what the first did. Only an
// invalid cool-down (ErrInvalid, errors.ErrUnsupported) leaves the lock held.
func (k *Lock) Release(opts ...ReleaseOption) error {
	err := k.of().giveUp(opts)
	runtime.KeepAlive(k) // it is not forgotten before it is being released
	return err
}
