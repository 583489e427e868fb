package adapters

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/robfig/cron/v3"
)

// runCron is a server with two jobs. One has the lock of the page, the other only what cron itself
// has against two runs at once.
func runCron(p *process) error {
	c := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger)))
	ran := false
	job := func(context.Context) error {
		ran = true
		return nil
	}
	ours, err := c.AddJob("@yearly", onOneServer(context.Background(), p.locker, "report", job))
	if err != nil {
		return err
	}
	theirs, err := c.AddFunc("@yearly", func() { ran = true })
	if err != nil {
		return err
	}
	for p.next() {
		id := ours
		if p.lines.Text() == "theirs" {
			id = theirs
		}
		ran = false
		c.Entry(id).WrappedJob.Run()
		if ran {
			p.say("ran")
		} else {
			p.say("skipped")
		}
	}
	return nil
}

// SkipIfStillRunning of cron knows one process only. With the lock of the page, the job runs on one
// of two servers.
func TestCronOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		first, second := start(t, "cron", url, dir), start(t, "cron", url, dir)
		for _, c := range []struct{ job, first, second string }{{"theirs", "ran", "ran"}, {"ours", "ran", "skipped"}} {
			first.tell(c.job)
			a := first.hear()
			second.tell(c.job)
			if b := second.hear(); a != c.first || b != c.second {
				t.Errorf("%s: the first server %s, the second %s", c.job, a, b)
			}
		}
	})
}

// The lock is lost during a job, or the program ends.
func TestCronStops(t *testing.T) {
	t.Parallel()
	for _, want := range []error{padlock.ErrLost, context.Canceled} {
		locker, script := padlocktest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := cancel
		if want == padlock.ErrLost {
			end = func() { script.Lose("report") }
		}
		var cause error
		report := func(ctx context.Context) error {
			end()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		}
		c := cron.New()
		id, err := c.AddJob("0 3 * * *", onOneServer(ctx, locker, "report", report))
		if err != nil {
			t.Fatal(err)
		}
		c.Entry(id).WrappedJob.Run()
		if !errors.Is(cause, want) {
			t.Errorf("%v, want %v", cause, want)
		}
	}
}
