package gocronlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/gocronlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/padlocktest"
)

// scheduler starts a scheduler, which is stopped by the function that is returned.
func scheduler(t *testing.T, opts ...gocron.SchedulerOption) (gocron.Scheduler, func()) {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s, func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// addJob adds a job, and fails the test if that is not possible.
func addJob(t *testing.T, s gocron.Scheduler, when gocron.JobDefinition, task gocron.Task, opts ...gocron.JobOption) gocron.Job {
	t.Helper()
	job, err := s.NewJob(when, task, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// servers runs f once for each of three servers, with the Locker of the server.
func servers(t *testing.T, f func(n int, l *padlock.Locker)) {
	l, script := padlocktest.New(t)
	f(0, l)
	for n := 1; n < 3; n++ {
		peer := padlock.New(script.Peer())
		t.Cleanup(func() { peer.Close(context.Background()) })
		f(n, peer)
	}
}

// A job of a microsecond, every second, on three servers whose clocks differ by 20 ms, runs once a
// second. This is https://github.com/go-co-op/gocron/issues/841.
func TestAFastJobRunsOnceATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, skipped atomic.Int32
		start := time.Now()
		servers(t, func(n int, l *padlock.Locker) {
			s, stop := scheduler(t, gocron.WithDistributedLocker(gocronlock.New(l, 500*time.Millisecond)))
			t.Cleanup(stop)
			at := start.Add(time.Second + time.Duration(n)*20*time.Millisecond)
			addJob(t, s, gocron.DurationJob(time.Second), gocron.NewTask(func() { runs.Add(1) }),
				gocron.WithName("fast"), gocron.WithStartAt(gocron.WithStartDateTime(at)),
				gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
					if !errors.Is(err, padlock.ErrHeld) {
						t.Error(err)
					}
					skipped.Add(1)
				})))
		})
		<-time.After(10*time.Second + 500*time.Millisecond)
		if runs.Load() != 10 || skipped.Load() != 20 {
			t.Errorf("%d runs and %d skipped in 10 ticks on 3 servers", runs.Load(), skipped.Load())
		}
	})
}

// gocron gives Unlock the context of the job, which has ended.
func TestTheLockOfARemovedJobIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := padlocktest.New(t)
		s, stop := scheduler(t, gocron.WithDistributedLocker(gocronlock.New(l, 0)))
		defer stop()
		runs, ended := make(chan struct{}), make(chan struct{})
		job := addJob(t, s, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func(ctx context.Context) {
			close(runs)
			<-ctx.Done()
			close(ended)
		}), gocron.WithName("report"))
		<-runs
		if err := s.RemoveJob(job.ID()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if lock, err := l.Acquire(t.Context(), "report", padlock.Wait(time.Second)); err != nil {
			t.Errorf("the lock was not released: %v", err)
		} else {
			lock.Release()
		}
	})
}

func TestATaskLearnsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		s, stop := scheduler(t)
		defer stop()
		cause, result := make(chan error, 1), make(chan error, 1)
		task := gocronlock.Task(l, "report", func(ctx context.Context) error {
			script.Lose("report")
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		})
		addJob(t, s, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task,
			gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { result <- err })))
		if err := <-cause; !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the context of the job ended with %v", err)
		}
		if err := <-result; !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the listener got %v", err)
		}
	})
}

func TestATaskIsSkipped(t *testing.T) {
	l, script := padlocktest.New(t)
	defer script.Hold("report", padlock.Hold{})()
	s, stop := scheduler(t)
	defer stop()
	result := make(chan error, 1)
	task := gocronlock.Task(l, "report", func(context.Context) error {
		t.Error("the job ran")
		return nil
	})
	addJob(t, s, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task,
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { result <- err })))
	if err := <-result; !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("the listener got %v", err)
	}
}

// The scheduler is stopped while a task runs: the context of the task ends.
func TestATaskEndsWithItsScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := padlocktest.New(t)
		s, stop := scheduler(t)
		runs, cause := make(chan struct{}), make(chan error, 1)
		addJob(t, s, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocronlock.Task(l, "report", func(ctx context.Context) error {
			close(runs)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}))
		<-runs
		stop()
		if err := <-cause; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if lock, err := l.Acquire(t.Context(), "report", padlock.Wait(time.Second)); err != nil {
			t.Errorf("the lock was not released: %v", err)
		} else {
			lock.Release()
		}
	})
}

// An Election is a gocron.Elector as it stands. When the leader stops, another server runs the
// jobs.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs [3]atomic.Int32
		var stops [3]func()
		servers(t, func(n int, l *padlock.Locker) {
			leader := election.New(l, "jobs")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				leader.Run(ctx, func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			stops[n] = func() { cancel(); <-done }
			t.Cleanup(stops[n])
			s, stop := scheduler(t, gocron.WithDistributedElector(leader))
			t.Cleanup(stop)
			addJob(t, s, gocron.DurationJob(time.Second), gocron.NewTask(func() { runs[n].Add(1) }))
		})
		led := func() (n int) {
			before := [3]int32{runs[0].Load(), runs[1].Load(), runs[2].Load()}
			<-time.After(10 * time.Second)
			n = -1
			for i := range runs {
				if d := runs[i].Load() - before[i]; d > 0 {
					if n >= 0 || d < 9 {
						t.Errorf("server %d ran %d jobs in 10 s, and server %d ran some", i, d, n)
					}
					n = i
				}
			}
			if n < 0 {
				t.Fatal("no server ran a job")
			}
			return n
		}
		first := led()
		stops[first]()
		<-time.After(5 * time.Second)
		if second := led(); second == first {
			t.Error("the server that has resigned runs jobs")
		}
	})
}
