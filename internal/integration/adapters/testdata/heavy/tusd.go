package adapters

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/tus/tusd/v2/pkg/handler"
)

// uploadLocks is a Locker of tusd that counts on all servers: composer.UseLocker(uploadLocks{locker}).
type uploadLocks struct{ locker *padlock.Locker }

func (u uploadLocks) NewLock(id string) (handler.Lock, error) {
	return &uploadLock{locker: u.locker, name: "upload:" + id}, nil
}

type uploadLock struct {
	locker *padlock.Locker
	name   string
	held   *padlock.Lock
}

// Lock interrupts the upload if the lock is lost, or if another request waits for it: the client
// comes again after its connection broke. A store without a queue does not know who waits, and the
// other request gets ErrLockTimeout.
func (u *uploadLock) Lock(ctx context.Context, interrupt func()) error {
	lock, err := u.locker.Acquire(ctx, u.name)
	if ctx.Err() != nil && err != nil {
		return handler.ErrLockTimeout
	} else if err != nil {
		return err
	}
	u.held = lock
	go func() {
		defer interrupt() // after the release it does nothing
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for {
			select {
			case <-lock.Context().Done():
				return
			case <-look.C:
				if s, err := u.locker.Inspect(lock.Context(), u.name); err == nil && s.Waiters > 0 {
					return
				}
			}
		}
	}()
	return nil
}

// Unlock returns an error if the lock did not last until now.
func (u *uploadLock) Unlock() error { return lasted(u.held) }
