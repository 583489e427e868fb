package adapters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"k8s.io/client-go/tools/leaderelection"
)

// candidate stands for election until ctx ends. says gets "leads" and "stopped".
func candidate(ctx context.Context, lock *candidateLock, says func(string)) {
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { says("leads"); <-ctx.Done() },
			OnStoppedLeading: func() { says("stopped") },
		},
	})
}

func init() { roles["clientgo"] = runCandidate }

func runCandidate(p *process) error {
	candidate(context.Background(), &candidateLock{locker: p.locker, name: "controller", identity: "pod-1"}, p.say)
	return nil
}

func stand(t *testing.T, ctx context.Context, lock *candidateLock) <-chan string {
	t.Helper()
	said, done := make(chan string, 10), make(chan struct{})
	go func() { defer close(done); candidate(ctx, lock, func(s string) { said <- s }) }()
	t.Cleanup(func() { <-done })
	return said
}

// The leader in another process dies: a candidate leads when its lease is over. It is cancelled, and
// the next one leads at once. That one's lock is broken: another leads, and it stops.
func TestClientGoElection(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		l := newLocker(t, url)
		dying := start(t, "clientgo", url, dir)
		if got := dying.hear(); got != "leads" {
			t.Fatal(got)
		}
		first, end := context.WithCancel(t.Context())
		defer end()
		a := stand(t, first, &candidateLock{locker: l, name: "controller", identity: "pod-2"})
		if record, _, err := (&candidateLock{locker: l, name: "controller"}).Get(t.Context()); err != nil || record.HolderIdentity != "pod-1" {
			t.Errorf("%+v, %v", record, err)
		}
		dying.kill()
		if got := <-a; got != "leads" {
			t.Error(got)
		}
		second, endSecond := context.WithCancel(t.Context())
		defer endSecond()
		other := newLocker(t, url)
		b := stand(t, second, &candidateLock{locker: other, name: "controller", identity: "pod-3"})
		end()
		if got := <-a; got != "stopped" {
			t.Error(got)
		}
		if got := <-b; got != "leads" {
			t.Error(got)
		}
		var taken *padlock.Lock
		for taken == nil { // the leader may take the name again in between
			state, err := l.Inspect(t.Context(), "controller")
			if err == nil {
				_, err = l.Break(t.Context(), "controller", state.Fence)
			}
			if err == nil {
				taken, err = l.TryAcquire(t.Context(), "controller")
			}
			if err != nil && !errors.Is(err, padlock.ErrHeld) && !errors.Is(err, padlock.ErrLost) {
				t.Fatal(err)
			}
		}
		defer taken.Release()
		if got := <-b; got != "stopped" {
			t.Error(got)
		}
	})
}
