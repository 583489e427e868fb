package stampede

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
)

// Prevent keeps two callers from doing the same work at the same time. The first caller gets the
// lock called name, and releases it when the work is done. All other callers get an error at once,
// and should skip the work. For this error, errors.Is(err, padlock.ErrHeld) is true. The lease is
// 2 s unless opts set another; it is renewed while the lock is held.
func Prevent(ctx context.Context, locker *padlock.Locker, name string, opts ...padlock.Option) (*padlock.Lock, error) {
	return locker.TryAcquire(ctx, lockName(locker, name), lockOptions(locker, defaultLease, opts...)...)
}

// Do calls fn under the lock called name. If another caller already holds that lock, in this
// process or another, Do returns false and does not call fn. The context of fn ends when the lock
// is lost. The lease is 2 s unless opts set another; it is renewed while fn runs.
func Do(ctx context.Context, locker *padlock.Locker, name string, fn func(context.Context) error, opts ...padlock.Option) (ran bool, err error) {
	opts = append(lockOptions(locker, defaultLease, opts...), padlock.Wait(0))
	err = locker.Do(ctx, lockName(locker, name), func(ctx context.Context) error {
		ran = true
		return fn(ctx)
	}, opts...)
	if !ran && errors.Is(err, padlock.ErrHeld) {
		return false, nil
	}
	return ran, err
}

// DoPer calls fn at most once per period, over all processes that share the lock store. The lock
// called name is held for at least period from the start of fn, even if fn fails or its process
// dies, as padlock.HoldAtLeast says. DoPer returns false if fn was called less than a period ago.
func DoPer(ctx context.Context, locker *padlock.Locker, name string, period time.Duration, fn func(context.Context) error, opts ...padlock.Option) (ran bool, err error) {
	opts = append(opts[:len(opts):len(opts)], padlock.HoldAtLeast(period))
	return Do(ctx, locker, name, fn, opts...)
}
