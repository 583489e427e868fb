package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/padlock-go/padlock"
)

// perTask processes one task of a key at a time.
func perTask(locker *padlock.Locker, key func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			return locker.Do(ctx, key(t), func(ctx context.Context) error {
				return next.ProcessTask(ctx, t)
			}, padlock.Wait(time.Second))
		})
	}
}

// waits goes into asynq.Config. A task whose key is held uses up no retry. It needs asynq.MaxRetry
// of 1 or more.
func waits(c asynq.Config) asynq.Config {
	c.IsFailure = func(err error) bool { return !errors.Is(err, padlock.ErrHeld) }
	c.RetryDelayFunc = func(n int, err error, t *asynq.Task) time.Duration {
		if held := new(padlock.HeldError); errors.As(err, &held) {
			return held.RetryAfter(10 * time.Second)
		}
		return asynq.DefaultRetryDelayFunc(n, err, t)
	}
	return c
}
