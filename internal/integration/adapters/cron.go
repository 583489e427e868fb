package adapters

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/robfig/cron/v3"
)

func onOneServer(ctx context.Context, locker *padlock.Locker, name string, job func(context.Context) error) cron.Job {
	return cron.FuncJob(func() {
		err := locker.TryDo(ctx, name, job, padlock.HoldAtLeast(time.Minute))
		switch {
		case errors.Is(err, padlock.ErrHeld): // another server does it, or has just done it
		case err != nil:
			slog.Error("job failed", "job", name, "err", err)
		}
	})
}
