package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
)

// Close releases no exported lock. A renewal of such a lock that is under way does not delay Close
// either, even if the store is silent.
func TestCloseDoesNotWaitForTheRenewalOfAnExportedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		h := acquire(t, l, "job", padlock.TTL(time.Minute))
		key := travel(t, h)
		store.request("extend", silent)
		for len(store.log("extend")) == 0 {
			<-time.After(time.Second / 10)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrClosed)
		_ = key
	})
}

// Close with a context that has ended does not wait for the renewal of a lock whose release did not
// end in time.
func TestCloseDoesNotWaitForARenewalLongerThanItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		work := make(chan struct{})
		go l.Do(context.Background(), "job", func(context.Context) error { <-work; return nil }, padlock.TTL(time.Minute))
		synctest.Wait()
		store.request("extend", silent)
		for len(store.log("extend")) == 0 {
			<-time.After(time.Second / 10)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		close(work)
		synctest.Wait()
	})
}
