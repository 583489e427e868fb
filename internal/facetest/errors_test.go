package facetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Errors are wrapped once, with operation and name, in one line.
func TestErrorsTellOperationAndName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		h := acquire(t, l, "job\nevil", padlock.NoRenewal(), padlock.TTL(time.Second))
		_, acquireErr := l.TryAcquire(t.Context(), h.Name())
		<-time.After(2 * time.Second)
		_, exportErr := h.Export(t.Context())
		for op, err := range map[string]error{
			"acquire": acquireErr, "export": exportErr, "check": h.Check(t.Context()), "extend": h.Extend(t.Context(), 0),
			"promote": h.Promote(t.Context()), "demote": h.Demote(t.Context()), "release": h.Release(),
			"hold": context.Cause(h.Context()),
		} {
			var e *padlock.Error
			if !errors.As(err, &e) || e.Op != padlock.Op(op) || e.Name != h.Name() {
				t.Errorf("%s: %#v", op, err)
				continue
			}
			var inner *padlock.Error
			if errors.As(e.Err, &inner) {
				t.Errorf("%s: wrapped twice: %v", op, err)
			}
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, `"job\nevil"`) || strings.Count(text, "padlock:") != 1 {
				t.Errorf("%s: %q", op, text)
			}
		}
	})
}

// Errors that a store has joined stand in one line, too.
func TestErrorsOfOneLine(t *testing.T) {
	err := error(&padlock.Error{Op: padlock.OpClose, Err: errors.Join(errors.New("first"), errors.New("second"))})
	if text := err.Error(); text != "padlock: close: first; second" {
		t.Errorf("%q", text)
	}
}

// If another Locker has closed the store, the error says so.
func TestTheStoreWasClosed(t *testing.T) {
	s := memstore.New()
	first, second := padlock.New(s), padlock.New(s)
	k := acquire(t, second, "job")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := second.TryAcquire(t.Context(), "other")
	for _, err := range []error{err, k.Release()} {
		if !errors.Is(err, padlock.ErrClosed) || !strings.Contains(err.Error(), "KeepStoreOpen") {
			t.Error(err)
		}
	}
	second.Close(t.Context())
	if _, err := second.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrClosed) || strings.Contains(err.Error(), "KeepStoreOpen") {
		t.Error(err)
	}
}

func TestErrorsStayShort(t *testing.T) {
	l := newLocker(t, memstore.New())
	name := strings.Repeat("\x00", driver.MaxName)
	acquire(t, l, name)
	_, err := l.TryAcquire(t.Context(), name)
	if n := len(err.Error()); n > 700 {
		t.Errorf("an error of %d bytes", n)
	}
}

// A store that is out of reach at the start is reported at once.
func TestStoreOutOfReachAtTheStart(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.request("acquire", fails(driver.ErrUnavailable))
			l := newLocker(t, store)
			start := time.Now()
			_, err := l.Acquire(t.Context(), "job", padlock.Wait(wait))
			wantOnly(t, err, "acquire", padlock.ErrUnavailable)
			if d := time.Since(start); d > time.Second {
				t.Errorf("reported after %v", d)
			}
		})
	}
}

// During a wait the store has 30 s to come back; the line stays.
func TestStoreRestartsDuringAWait(t *testing.T) {
	for name, trouble := range map[string]trouble{
		"unavailable": fails(driver.ErrUnavailable), "reset": lost, "silent": silent,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				l := newLocker(t, store)
				h := acquire(t, l, "job")
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() { release(t, acquire(t, l, "job")) })
				}
				synctest.Wait()
				for _, op := range []string{"acquire", "wait", "extend"} {
					store.request(op, trouble)
				}
				time.AfterFunc(20*time.Second, store.heal)
				release(t, h)
				wg.Wait()
			})
		})
	}
}

// Short outages are not one long outage if the store replied between them.
func TestOutagesDuringALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, bare{store})
		h := acquire(t, l, "job")
		for i := range 5 {
			at := time.Duration(i) * 30 * time.Second
			time.AfterFunc(at+time.Second, func() { store.request("acquire", fails(driver.ErrUnavailable)) })
			time.AfterFunc(at+20*time.Second, store.heal)
		}
		time.AfterFunc(3*time.Minute, func() { release(t, h) })
		release(t, acquire(t, l, "job"))
	})
}

// Hiccups that are far apart are not one long outage.
func TestHiccupsDuringALongWait(t *testing.T) {
	for _, apart := range []time.Duration{16 * time.Second, 29 * time.Second, 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := newLocker(t, store)
			h := acquire(t, l, "job")
			store.request("wait", func(ctx context.Context, _ int) error {
				ctx, cancel := context.WithTimeout(ctx, apart)
				defer cancel()
				_, err := store.Store.Wait(ctx, driver.Request{Name: "job", Token: driver.TokenOf("same place"), TTL: time.Second}, true)
				return errors.Join(err, errReset)
			})
			time.AfterFunc(10*time.Minute, func() { store.heal(); release(t, h) })
			release(t, acquire(t, l, "job"))
		})
	}
}

func TestStoreStaysAwayDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, bare{store})
		h := acquire(t, l, "job")
		time.AfterFunc(time.Second, func() { store.request("acquire", fails(driver.ErrUnavailable)) })
		start := time.Now()
		_, err := l.Acquire(t.Context(), "job")
		if !errors.Is(err, padlock.ErrUnavailable) || errors.Is(err, padlock.ErrHeld) {
			t.Errorf("Acquire says %v", err)
		}
		if d := time.Since(start); d < 30*time.Second || d > 35*time.Second {
			t.Errorf("given up after %v", d)
		}
		store.heal()
		release(t, h)
	})
}

// An error that waiting cannot mend is returned at once, even in the middle of a wait.
func TestHopelessErrorsEndAWait(t *testing.T) {
	for _, hopeless := range []error{driver.ErrInvalid, errors.ErrUnsupported} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := newLocker(t, bare{store})
			defer acquire(t, l, "job").Release()
			time.AfterFunc(time.Second, func() { store.request("acquire", fails(hopeless)) })
			start := time.Now()
			_, err := l.Acquire(t.Context(), "job")
			wantOnly(t, err, "acquire", hopeless)
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("told after %v", d)
			}
		})
	}
}

// The error at the end of a wait contains the store's errors during the wait.
func TestErrorsDuringAWaitAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, bare{store})
		defer acquire(t, l, "job").Release()
		errNoPerm := errors.New("NOPERM this user has no permissions")
		time.AfterFunc(time.Second, func() { store.request("acquire", fails(errors.Join(driver.ErrUnavailable, errNoPerm))) })
		_, err := l.Acquire(t.Context(), "job", padlock.Wait(10*time.Second))
		if !errors.Is(err, errNoPerm) {
			t.Errorf("%v hides what went wrong", err)
		}
	})
}

// A timeout of the store's client is not the end of the caller's context.
func TestAStoresTimeoutIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "held")
		for _, op := range []string{"acquire", "extend", "release", "convert"} {
			store.request(op, fails(context.DeadlineExceeded))
		}
		_, err := l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrUncertain)
		wantOnly(t, h.Check(t.Context()), "check")
		wantOnly(t, h.Extend(t.Context(), 0), "extend")
		wantOnly(t, h.Demote(t.Context()), "demote", padlock.ErrUncertain)
		wantOnly(t, h.Release(), "release", padlock.ErrUncertain)
		store.heal()
	})
}

// A client that computes with the caller's deadline may notice its end before the context does;
// that is not a timeout of the client.
func TestAClientNoticesTheDeadlineFirst(t *testing.T) {
	store := newRemote()
	store.request("acquire", fails(context.DeadlineExceeded))
	l := newLocker(t, store)
	_, err := l.TryAcquire(lateContext{t.Context()}, "job")
	wantOnly(t, err, "acquire", padlock.ErrUncertain, context.DeadlineExceeded)
}

// lateContext has not ended yet though its deadline is over.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-1), true }

// errors.Is finds ErrHeld, and errors.As finds *HeldError, through any wrapping.
func TestHeldErrorThroughJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		defer acquire(t, l, "job", padlock.Label("who")).Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "job")
		wantOnly(t, err, "acquire", padlock.ErrHeld, context.DeadlineExceeded)
		var held *padlock.HeldError
		if !errors.As(err, &held) || held.Holds[0].Label != "who" || held.Foreign() {
			t.Errorf("%v", err)
		}
	})
}
