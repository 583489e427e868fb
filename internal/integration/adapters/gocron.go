package adapters

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/gocronlock"
)

func addReport(s gocron.Scheduler, locker *padlock.Locker, report func(context.Context) error) (gocron.Job, error) {
	task := gocronlock.Task(locker, "report", report, padlock.HoldAtLeast(time.Minute))
	failed := func(_ uuid.UUID, job string, err error) {
		if !errors.Is(err, padlock.ErrHeld) { // another server's run
			slog.Error("job failed", "job", job, "err", err)
		}
	}
	return s.NewJob(gocron.CronJob("0 3 * * *", false), task,
		gocron.WithName("report"), gocron.WithEventListeners(gocron.AfterJobRunsWithError(failed)))
}
