package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/tus/tusd/v2/pkg/handler"
)

// uploadLocks is a Locker of tusd that counts on all servers. Pass it to composer.UseLocker.
type uploadLocks struct{ locker *padlock.Locker }

func (u uploadLocks) NewLock(id string) (handler.Lock, error) {
	return &uploadLock{locker: u.locker, name: "upload:" + id}, nil
}

type uploadLock struct {
	locker *padlock.Locker
	name   string
	held   *padlock.Lock
	waited uint64 // the fence of its own next
}

// Lock lets a client go on at any server while its broken connection still hangs at another one:
// that request is interrupted. A request is also interrupted if its lock is lost.
func (u *uploadLock) Lock(ctx context.Context, interrupt func()) error {
	lock, err := u.locker.TryAcquire(ctx, u.name)
	if errors.Is(err, padlock.ErrHeld) {
		lock, err = u.wait(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return handler.ErrLockTimeout
	case err != nil:
		return err
	}
	u.held = lock
	go u.watch(lock, interrupt)
	return nil
}

// next is the name of the lock that a request has while it waits.
func (u *uploadLock) next() string { return u.name + ":next" }

func (u *uploadLock) wait(ctx context.Context) (*padlock.Lock, error) {
	next, err := u.locker.Acquire(ctx, u.next())
	if err != nil {
		return nil, err
	}
	defer next.Release()
	u.waited = next.Fence()
	return u.locker.Acquire(ctx, u.name)
}

// watch asks once a second whether another request waits. The release of this one's own next may
// not be confirmed for a while.
func (u *uploadLock) watch(lock *padlock.Lock, interrupt func()) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-lock.Context().Done():
			if !errors.Is(context.Cause(lock.Context()), padlock.ErrReleased) {
				interrupt()
			}
			return
		case <-look.C:
			s, _ := u.locker.Inspect(lock.Context(), u.next())
			if own := u.waited > 0 && s.Fence == u.waited; len(s.Holds) > 0 && !own {
				interrupt()
				return
			}
		}
	}
}

// Unlock returns an error if the lock did not last until now.
func (u *uploadLock) Unlock() error { return lasted(u.held) }
