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

// A waiter gives up after its token and the holder released the name: then nothing is left of it.
func TestWaiterOfAReleasedNameGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		request := func(token string) driver.Request {
			return driver.Request{Name: "job", Token: token, TTL: time.Second}
		}
		if _, err := s.Acquire(t.Context(), request("holder")); err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.Wait(ctx, request("waiter"), true)
			ended <- err
		}()
		synctest.Wait()
		for _, token := range []string{"waiter", "holder"} {
			if _, err := s.Release(t.Context(), "job", token, 0); err != nil {
				t.Fatal(err)
			}
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	})
}
