package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// perKey works one job of a key at a time.
func perKey(locker *padlock.Locker, key func(*rivertype.JobRow) string) rivertype.WorkerMiddleware {
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		lock, err := locker.Acquire(ctx, key(job), padlock.Wait(time.Second))
		if held := new(padlock.HeldError); errors.As(err, &held) {
			return river.JobSnooze(held.RetryAfter(10 * time.Second))
		} else if err != nil {
			return err
		}
		defer lock.Release()
		ctx, cancel := lock.Join(ctx)
		defer cancel()
		return errors.Join(work(ctx), lasted(lock))
	})
}
