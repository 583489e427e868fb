// Package gocronlock makes jobs of gocron run on one of many servers.
//
// Use it if several servers have the same jobs. A scheduler that is alone does not need it, and for
// cron or systemd use the command padlock run instead.
//
// Give the jobs times of the clock, such as gocron.CronJob. A gocron.DurationJob counts from the
// start of each server, so every server runs it, at another time. A tick has at most one run: if
// its server dies, no other server repeats it, and a tick that comes during a run is skipped.
//
// At the end, call Scheduler.Shutdown, which ends the contexts of the jobs and waits for them, and
// then Locker.Close.
//
// There are three ways. The last one needs nothing of this package:
//
//	// A job runs where its time comes first. It does not learn that its lock is lost.
//	gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.New(locker, time.Minute)))
//
//	// The context of the job ends when its lock is lost.
//	task := gocronlock.Task(locker, "report", report, padlock.HoldAtLeast(time.Minute))
//	scheduler.NewJob(gocron.CronJob("0 3 * * *", false), task)
//
//	// One server runs all jobs, as long as it leads.
//	leader := election.New(locker, "jobs")
//	gocron.NewScheduler(gocron.WithDistributedElector(leader))
package gocronlock

import (
	"context"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/padlock-go/padlock"
)

// New returns a gocron.Locker. A scheduler with it skips a run if another scheduler runs the job,
// or has begun to run it less than atLeast ago. Without such a time, a job that is done within
// milliseconds runs on each server, because the clocks of the servers differ by more than that. So
// atLeast must be longer than the difference of the clocks, and shorter than the time between two
// runs. A store limits it, as padlock.HoldAtLeast says; a minute is mostly enough.
//
// The name of the lock is the name of the job: give each job one with gocron.WithName. A run that
// is skipped, and every other error of the lock, goes to the listener gocron.AfterLockError only:
// gocron does not log it.
//
// The lock is released even if the job was removed, or the scheduler was stopped, while the job
// ran. The job does not learn that its lock is lost, because gocron has no way to tell it: see
// [Task].
func New(l *padlock.Locker, atLeast time.Duration, opts ...padlock.Option) gocron.Locker {
	return &locker{l, append(slices.Clone(opts), padlock.HoldAtLeast(atLeast))}
}

type locker struct {
	locker *padlock.Locker
	opts   []padlock.Option
}

// Lock implements gocron.Locker.
func (l *locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.locker.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	return held{lock}, nil
}

type held struct{ lock *padlock.Lock }

// Unlock implements gocron.Lock. Its context is that of the job, which has ended if the job was
// removed.
func (h held) Unlock(context.Context) error { return h.lock.Release() }

// Task returns a task that runs fn under the lock called name, if the lock is free. The context of
// fn ends when the job is removed, when the scheduler stops, and when the lock is lost.
//
// Give padlock.HoldAtLeast, with a time that is longer than the difference of the clocks and
// shorter than the time between two runs, as [New] explains. If another server has the lock, the
// task returns padlock.ErrHeld. The other errors are those of Locker.TryDo, such as
// padlock.ErrLost. All go to the listener gocron.AfterJobRunsWithError only: gocron does not log
// them. Do not use Task together with New under the same name: the task would find its lock held.
func Task(l *padlock.Locker, name string, fn func(context.Context) error, opts ...padlock.Option) gocron.Task {
	opts = slices.Clone(opts)
	return gocron.NewTask(func(ctx context.Context) error { // gocron passes the context of the job
		return l.TryDo(ctx, name, fn, opts...)
	})
}
