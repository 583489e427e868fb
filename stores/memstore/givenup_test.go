package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestReleaseEndsWait: a Release of a token that waits takes its place away. Its Wait then returns
// and tells the caller to try again.
func TestReleaseEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		request := func(token string) driver.Request {
			return driver.Request{Name: "job", Token: driver.TokenOf(token), TTL: time.Second}
		}
		if _, err := s.Acquire(t.Context(), request("holder")); err != nil {
			t.Fatal(err)
		}
		for _, reserve := range []bool{true, false} {
			ctx, giveUp := context.WithTimeout(t.Context(), time.Second/2)
			waits := make(chan error, 1)
			go func() {
				g, err := s.Wait(ctx, request("waiter"), reserve)
				if err == nil && g.TTL > 0 {
					err = errors.New("the name was handed over")
				}
				waits <- err
			}()
			synctest.Wait()
			if out, err := s.Release(t.Context(), "job", "waiter", 0); out != driver.OutcomeReleased || err != nil {
				t.Errorf("Release of a token that waits: %v, %v", out, err)
			}
			if err := <-waits; err != nil {
				t.Errorf("Wait (reserve %v) after Release of its token: %v", reserve, err)
			}
			giveUp()
		}
		if state, err := s.Inspect(t.Context(), "job"); err != nil || state.Waiters != 0 || len(state.Holds) != 1 {
			t.Errorf("after the waiters have left: %+v, %v", state, err)
		}
	})
}
