package adapters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/gocronlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/padlocktest"
)

var _ gocron.Elector = (*election.Election)(nil)

// runScheduler is a server with a fast job, which runs each time the test says so.
func runScheduler(p *process) error {
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.New(p.locker, time.Minute)))
	if err != nil {
		return err
	}
	result := make(chan string, 1)
	job, err := s.NewJob(gocron.DurationJob(24*time.Hour), gocron.NewTask(func() { result <- "ran" }),
		gocron.WithName("fast"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			if !errors.Is(err, padlock.ErrHeld) {
				result <- err.Error()
				return
			}
			result <- "skipped"
		})))
	if err != nil {
		return err
	}
	s.Start()
	for p.next() {
		if err := job.RunNow(); err != nil {
			return err
		}
		p.say(<-result)
	}
	return s.Shutdown()
}

// Three servers in three processes run the same fast job at almost the same time. This is
// https://github.com/go-co-op/gocron/issues/841: the first one is done before the second begins.
func TestAFastJobOnThreeSchedulers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		want := "ran"
		for range 3 {
			s := start(t, "gocron", url, dir)
			if s.tell("tick"); s.hear() != want {
				t.Errorf("a server has not %s the job", want)
			}
			want = "skipped"
		}
	})
}

// The job of the page ends when its lock is lost.
func TestTheJobOfThePage(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	cause := make(chan error, 1)
	job, err := addReport(s, l, func(ctx context.Context) error {
		script.Lose("report")
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if err := job.RunNow(); err != nil {
		t.Fatal(err)
	}
	if err := <-cause; !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
}

// With the election of the page, the leader runs the jobs of its scheduler.
func TestTheElectionOfThePage(t *testing.T) {
	t.Parallel()
	locker, _ := padlocktest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leader := election.New(locker, "jobs")
	go leader.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(leader))
	if err != nil {
		t.Fatal(err)
	}
	defer scheduler.Shutdown()
	ran := make(chan struct{}, 1)
	job := func() {
		select {
		case ran <- struct{}{}:
		default:
		}
	}
	if _, err := scheduler.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(job)); err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	<-ran
}
