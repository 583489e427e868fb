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

// A token that has a shared lock does not get it as an exclusive one, and the shared lock stays.
func TestTokenOfASharedLock(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		k := acquire(t, l, "job", padlock.Token(myToken), padlock.Shared())
		reader := acquire(t, l, "job", padlock.Shared())
		_, err := repeat(t, s, "job")
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrInvalid)
		_, err = l.Acquire(t.Context(), "job", padlock.Token(myToken), padlock.Wait(time.Minute))
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrInvalid)
		<-time.After(time.Minute)
		if err := k.Check(t.Context()); err != nil || !k.Shared() {
			t.Errorf("the shared lock: %v", err)
		}
		wantRepeat(t, s, "job", k, padlock.Shared())
		release(t, k)
		release(t, reader)
		again, err := repeat(t, s, "job")
		if err != nil {
			t.Fatal(err)
		}
		release(t, again)
	})
}

// The first request for a lock arrives after the lock that its repetition got was released. The lock
// that it takes is released too.
func TestFirstRequestArrivesAfterTheRelease(t *testing.T) {
	for _, op := range []string{"acquire", "slot"} {
		t.Run(op, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testFirstRequestLate(t, op) }) })
	}
}

func testFirstRequestLate(t *testing.T, op string) {
	s := slotRemote{newRemote()}
	l := newLocker(t, s)
	s.request(op, func(_ context.Context, n int) error {
		if n > 0 {
			return nil
		}
		calls := s.log(op)
		r := driver.Request{Name: "job", Token: driver.TokenOf(calls[len(calls)-1].token), TTL: time.Hour}
		time.AfterFunc(200*time.Millisecond, func() {
			if op == "slot" {
				s.Store.AcquireSlot(context.Background(), r, 3, true)
			} else {
				s.Store.Acquire(context.Background(), r)
			}
		})
		return errReset
	})
	var opts []padlock.Option
	if op == "slot" {
		opts = append(opts, padlock.Slots(3))
	}
	release(t, acquire(t, l, "job", opts...))
	<-time.After(5 * time.Second)
	if states, err := l.List(t.Context(), ""); err != nil || len(states) > 0 {
		t.Errorf("nobody holds %d locks, %v", len(states), err)
	}
}

// Close meets the stand-in of a call with Token while the caller's token replaces it.
func TestCloseWhileAStandInIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := padlock.New(s)
		other := newLocker(t, connect(s.Store))
		k := acquire(t, other, "job")
		result := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "job", padlock.Token(myToken))
			result <- err
		}()
		synctest.Wait()
		s.reply("acquire", func(ctx context.Context, _ int) error {
			if calls := s.log("acquire"); calls[len(calls)-1].token == myToken {
				return sleep(ctx, 100*time.Millisecond)
			}
			return nil
		})
		release(t, k)
		<-time.After(50 * time.Millisecond)
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-result; !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("the call: %v", err)
		}
	})
}

// Close does not wait for a store that takes long to close.
func TestCloseOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := padlock.New(s)
		s.request("close", takes(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took > 2200*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		<-time.After(time.Minute) // until the store is closed
	})
}

// If the server falls silent, a call with Token and Wait sends one request after the time is over.
func TestTokenWaitsForASilentServer(t *testing.T) {
	wait := func(opts ...padlock.Option) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			l := newLocker(t, s)
			k := acquire(t, newLocker(t, connect(s.Store)), "job")
			time.AfterFunc(time.Second, s.fallSilent)
			start := time.Now()
			_, err := l.Acquire(t.Context(), "job", append(opts, padlock.Wait(2*time.Second))...)
			took = time.Since(start)
			if !errors.Is(err, padlock.ErrHeld) {
				t.Error(err)
			}
			s.heal()
			release(t, k)
		})
		return took
	}
	plain, withToken := wait(), wait(padlock.Token(myToken))
	if withToken > plain+driver.MaxSilence+time.Second {
		t.Errorf("a call with Token took %v, another %v", withToken, plain)
	}
}

// Export waits for a Promote that is under way, so that the key has the mode that the lock has.
func TestExportDuringAPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, l, "job", padlock.Shared())
		s.reply("convert", takes(time.Second))
		promoted := make(chan error)
		go func() { promoted <- k.Promote(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := k.Export(ctx)
		wantOnly(t, err, padlock.OpExport, context.DeadlineExceeded)
		key := travel(t, k)
		if err := <-promoted; err != nil {
			t.Fatal(err)
		}
		mine, err := l.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if mine.Shared() {
			t.Error("the adopted lock says that it is shared")
		}
		release(t, mine)
	})
}
