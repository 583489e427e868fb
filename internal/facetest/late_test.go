package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// These tests are about requests that arrive late, and about two things that happen at the same
// moment.

// A Release waits for a renewal that does not end. Meanwhile the lease ends, and the context with
// it, because the caller of the lock may still be at work.
func TestContextEndsWithTheLeaseDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		h := acquire(t, l, "job", padlock.TTL(time.Second))
		s.request("extend", first(1, deaf))
		<-time.After(500 * time.Millisecond) // the renewal is under way
		released := make(chan error)
		go func() { released <- h.Release() }()
		<-time.After(500 * time.Millisecond)
		synctest.Wait()
		if h.Context().Err() == nil {
			t.Error("the lease is over, and the context has not ended")
		}
		if err := <-released; !errors.Is(err, padlock.ErrExpired) {
			t.Errorf("the release says %v", err)
		}
	})
}

// Close releases the locks of an AcquireAll that is still waiting for others, and the server is
// silent. The call returns at its deadline all the same.
func TestAcquireAllEndsAtItsDeadlineDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := padlock.New(s)
		kept := acquire(t, newLocker(t, connect(s.Store)), "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed := make(chan error)
		time.AfterFunc(900*time.Millisecond, func() { s.fallSilent(); closed <- l.Close(context.Background()) })
		start := time.Now()
		_, err := l.AcquireAll(ctx, []string{"a", "b"})
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the call returned after %v", took)
		}
		if !errors.Is(err, padlock.ErrClosed) {
			t.Error(err)
		}
		s.heal()
		<-closed
		release(t, kept)
	})
}

// A request without a reply is repeated without a reply, and the second request arrives after the
// clean-up has released what the first had taken. The clean-up also releases what the second takes.
func TestCleanUpWhenARepetitionArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		s.reply("acquire", func(ctx context.Context, n int) error {
			if n == 1 { // the request is carried out now, and once more after the clean-up
				token := s.log("acquire")[n].token
				time.AfterFunc(200*time.Millisecond, func() {
					s.Store.Acquire(context.Background(), driver.Request{Name: "job", Token: driver.TokenOf(token), TTL: time.Minute})
				})
			}
			return errReset
		})
		if _, err := l.Acquire(ctx, "job"); !errors.Is(err, padlock.ErrUncertain) {
			t.Errorf("the error is %v", err)
		}
		<-time.After(100 * time.Millisecond)
		if !free(t, s, "job") {
			t.Error("the clean-up has not released the lock")
		}
		<-time.After(2 * time.Second)
		if !free(t, s, "job") {
			t.Error("the lock that came late is held by nobody")
		}
		s.heal()
	})
}

// A conversion succeeds just before HoldAtMost ends the lock. The event of the conversion comes
// first.
func TestConversionAtTheEndOfALock(t *testing.T) {
	const end = time.Second
	synctest.Test(t, func(t *testing.T) {
		for range 300 { // which of the two comes first is random
			var rec recorder
			s := newRemote()
			l := newLocker(t, s, padlock.Observe(padlock.ObserverFunc(rec.on)))
			s.reply("convert", takes(end))
			h := acquire(t, l, "job", padlock.HoldAtMost(end))
			err := h.Demote(t.Context())
			synctest.Wait()
			ended := false
			for _, e := range rec.all() {
				ended = ended || e.Kind == padlock.EventEnded
				if e.Kind == padlock.EventConverted && e.Err == nil && (ended || err != nil) {
					t.Fatalf("the event of the conversion comes after the end: %+v", rec.all())
				}
			}
			h.Release()
		}
	})
}

// A lock with HoldAtLeast is adopted and released. Its key does not have the time, so the name is
// free at once.
func TestAdoptedLockForgetsHoldAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		start := time.Now()
		key, err := acquire(t, newLocker(t, connect(s.Store)), "job", padlock.HoldAtLeast(10*time.Second)).Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		w := wait(t, l)
		release(t, h)
		next := w.lock(t)
		if got := time.Since(start); got > time.Second {
			t.Errorf("the next caller has the lock after %v", got)
		}
		release(t, next)
	})
}

// A demotion gets no reply and arrives late. A promotion that follows at once is not undone by it.
func TestPromotionAfterALateDemotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		token := s.log("acquire")[0].token
		s.request("convert", first(1, func(context.Context, int) error {
			time.AfterFunc(100*time.Millisecond, func() {
				s.Store.Convert(context.Background(), driver.Request{Name: "job", Token: driver.TokenOf(token), Shared: true, TTL: time.Minute})
			})
			return errReset
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := h.Demote(ctx); !errors.Is(err, padlock.ErrUncertain) {
			t.Errorf("the demotion says %v", err)
		}
		if err := h.Promote(t.Context()); err != nil || h.Shared() {
			t.Errorf("the promotion says %v", err)
		}
		<-time.After(time.Second)
		state, err := s.Inspect(t.Context(), "job")
		if err != nil || len(state.Holds) != 1 || state.Holds[0].Shared != h.Shared() {
			t.Errorf("the holder believes that shared is %v, and the store has %+v, %v", h.Shared(), state, err)
		}
		release(t, h)
	})
}
