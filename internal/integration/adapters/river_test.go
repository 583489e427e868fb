package adapters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Of two workers on two servers, one works a job of a key. The job of the other comes again, and
// counts no attempt.
func TestRiverOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, _ string) {
		key := func(job *rivertype.JobRow) string { return "customer:" + job.Kind }
		first, second := perKey(newLocker(t, url), key), perKey(newLocker(t, url), key)
		job := &rivertype.JobRow{Kind: "7"}
		err := first.Work(t.Context(), job, func(ctx context.Context) error {
			var snooze *river.JobSnoozeError
			err := second.Work(context.WithoutCancel(t.Context()), job, func(context.Context) error { return errors.New("two jobs at once") })
			if !errors.As(err, &snooze) || snooze.Duration <= 0 {
				t.Errorf("the second job: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		want := errors.New("the error of the job")
		if err := second.Work(t.Context(), job, func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("after the first job: %v", err)
		}
	})
}

// The store does not confirm the release. The job is done all the same.
func TestAReleaseWithoutConfirmation(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	m := perKey(l, func(*rivertype.JobRow) string { return "k" })
	err := m.Work(t.Context(), &rivertype.JobRow{}, func(ctx context.Context) error {
		script.Fail(padlocktest.Release, 3, padlock.ErrUncertain)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRiverLoss(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	m := perKey(l, func(*rivertype.JobRow) string { return "k" })
	err := m.Work(t.Context(), &rivertype.JobRow{}, func(ctx context.Context) error {
		script.Lose("k")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
			return errors.New("the context goes on")
		}
	})
	if !errors.Is(err, padlock.ErrLost) {
		t.Error(err)
	}
}
