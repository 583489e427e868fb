package adapters

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/gocronlock"
)

func addReport(s gocron.Scheduler, locker *padlock.Locker, report func(context.Context) error) (gocron.Job, error) {
	task := gocronlock.Task(locker, "report", report, padlock.HoldAtLeast(time.Minute))
	return s.NewJob(gocron.CronJob("0 3 * * *", false), task)
}
