package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// TestCallsLineUp: a call waits for another call on the same hold, even if the members take nearly
// as long as MemberTimeout allows. Both end within MaxSilence, even if the members fall silent.
func TestCallsLineUp(t *testing.T) {
	r := request("n")
	extend := func(ctx context.Context, s driver.Store) error {
		_, err := s.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
		return err
	}
	release := func(ctx context.Context, s driver.Store) error {
		_, err := s.Release(ctx, r.Name, r.Token.Text(), 0)
		return err
	}
	again := func(ctx context.Context, s driver.Store) error {
		_, err := s.Acquire(ctx, r)
		return err
	}
	for what, second := range map[string]func(context.Context, driver.Store) error{
		"Extend": extend, "Release": release, "Acquire": again,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(3).client(t, quorum.Majority, quorum.MemberTimeout(time.Second))
				t.Cleanup(func() { cl.Close() })
				take(t, cl, r)
				cl.these(slow(900*time.Millisecond), 1, 2, 3)
				for i, err := range together(t, 2, func(ctx context.Context, i int) error {
					if i == 0 {
						return extend(ctx, cl)
					}
					<-time.After(time.Millisecond)
					return second(ctx, cl)
				}) {
					if err != nil {
						t.Errorf("call %d of two at once: %v", i+1, err)
					}
				}
				cl.these(silent, 1, 2, 3)
				go extend(t.Context(), cl)
				synctest.Wait()
				if d := took(func() { second(t.Context(), cl) }); d > driver.MaxSilence {
					t.Errorf("a second call, while the members are silent, takes %v", d)
				}
			})
		})
	}
}
