package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// advising is a server whose client says that every name is held. Its Wait returns a hold.
type advising struct{ *remote }

func (advising) JoinFirst(string) bool { return true }

func (a advising) Wait(ctx context.Context, q driver.Request, reserve bool) (g driver.Grant, err error) {
	c := call{op: "wait", name: q.Name, token: q.Token, shared: q.Shared, ctx: ctx}
	err = a.on(c, func(ctx context.Context) error { g, err = a.Store.Wait(ctx, q, reserve); return err })
	return g, err
}

// TestJoinFirst: which calls join the store's queue without a try. The name is free, so no call
// waits.
func TestJoinFirst(t *testing.T) {
	type locking = func(l *padlock.Locker, opts ...padlock.Option) (*padlock.Lock, error)
	acquiring := func(l *padlock.Locker, opts ...padlock.Option) (*padlock.Lock, error) {
		return l.Acquire(context.Background(), "job", opts...)
	}
	trying := func(l *padlock.Locker, opts ...padlock.Option) (*padlock.Lock, error) {
		return l.TryAcquire(context.Background(), "job", opts...)
	}
	for what, c := range map[string]struct {
		f     locking
		opts  []padlock.Option
		of    []padlock.LockerOption
		joins bool
	}{
		"Acquire":        {f: acquiring, joins: true},
		"a long Wait":    {f: acquiring, opts: []padlock.Option{padlock.Wait(time.Second)}, joins: true},
		"a short Wait":   {f: acquiring, opts: []padlock.Option{padlock.Wait(time.Second - 1)}},
		"TryAcquire":     {f: trying},
		"SkipIfOutlived": {f: acquiring, opts: []padlock.Option{padlock.SkipIfOutlived()}},
		"Shared":         {f: acquiring, opts: []padlock.Option{padlock.Shared()}},
		"HoldAtLeast":    {f: acquiring, opts: []padlock.Option{padlock.HoldAtLeast(time.Minute)}},
		"FenceAbove":     {f: acquiring, opts: []padlock.Option{padlock.FenceAbove(1)}},
		"a short TTL":    {f: acquiring, opts: []padlock.Option{padlock.TTL(driver.MaxReservation)}},
		"no waiters":     {f: acquiring, of: []padlock.LockerOption{padlock.MaxWaiters(0)}},
		"Slots": {f: func(l *padlock.Locker, opts ...padlock.Option) (*padlock.Lock, error) {
			return l.Acquire(context.Background(), "job", padlock.Slots(2))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := advising{connect(memstore.New())}
				l := newLocker(t, s, c.of...)
				before := time.Now()
				h, err := c.f(l, c.opts...)
				if err != nil {
					t.Fatal(err)
				}
				tries, joins := len(s.log("acquire")), len(s.log("wait"))
				if (joins == 1) != c.joins || (tries > 0) == c.joins || time.Since(before) != 0 {
					t.Errorf("%d tries, %d joined the queue, after %v", tries, joins, time.Since(before))
				}
				release(t, h)
			})
		})
	}
}

// TestJoinFirstLosesNothing: a caller that joins the queue without a try waits for its turn, ends
// its wait in time, and learns of a store that is out of reach.
func TestJoinFirstLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := advising{connect(memstore.New())}
		l, other := newLocker(t, s), newLocker(t, connect(s.Store))
		h := acquire(t, other, "job")
		before := time.Now()
		_, err := l.Acquire(context.Background(), "job", padlock.Wait(5*time.Second))
		if !errors.Is(err, padlock.ErrHeld) || time.Since(before) != 5*time.Second {
			t.Errorf("a wait of 5 s: %v after %v", err, time.Since(before))
		}
		go func() {
			<-time.After(time.Second)
			release(t, h)
		}()
		release(t, acquire(t, l, "job"))
		if time.Since(before) != 6*time.Second {
			t.Errorf("the name was free after 6 s, and granted after %v", time.Since(before))
		}
		s.request("wait", fails(driver.ErrUnavailable))
		if _, err = l.Acquire(context.Background(), "job"); !errors.Is(err, padlock.ErrUnavailable) {
			t.Errorf("with a server that is gone: %v", err)
		}
	})
}

// A caller joins the line without a try if its own Locker holds the name, even if that lock is not
// passed on. The error of a wait that ends names the holder, although no reply has named it.
func TestNoTryBehindTheOwnLocker(t *testing.T) {
	for what, holder := range map[string]padlock.Option{
		"a hold at least": padlock.HoldAtLeast(time.Minute),
		"a cool-down":     padlock.CoolDown(time.Minute),
		"a plain lock":    padlock.Label(""),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job", holder)
				_, err := l.Acquire(t.Context(), "job", padlock.Wait(time.Millisecond))
				var held *padlock.HeldError
				if !errors.As(err, &held) || len(held.Holds) != 1 {
					t.Errorf("the error is %v, want the holder", err)
				}
				if n := s.requests(); n["acquire"] != 1 {
					t.Errorf("%v, want no try", n)
				}
				release(t, h, padlock.CoolDown(0))
			})
		})
	}
}
