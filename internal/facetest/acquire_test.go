package facetest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestAHeldNameSaysByWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store.Open())
		since := time.Now()
		h := acquire(t, l, "job", padlock.Label("nightly"), padlock.HoldAtMost(time.Hour))
		defer release(t, h)
		<-time.After(time.Second)
		_, err := other.TryAcquire(t.Context(), "job", padlock.Wait(time.Hour))
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		if waited := time.Since(since); waited != time.Second {
			t.Errorf("TryAcquire waited for %v", waited-time.Second)
		}
		var held *padlock.HeldError
		if !errors.As(err, &held) || len(held.Holds) != 1 {
			t.Fatalf("%v does not say by whom", err)
		}
		got := held.Holds[0]
		host, _ := os.Hostname()
		if got.Label != "nightly" || got.PID != os.Getpid() || got.Host != host || got.Shared || got.Foreign {
			t.Errorf("the holder is reported as %+v", got)
		}
		if !got.Since.Equal(since) || !got.Until.Equal(since.Add(padlock.DefaultTTL)) || !got.PlannedEnd.Equal(since.Add(time.Hour)) {
			t.Errorf("held since %v until %v with plan %v", got.Since, got.Until, got.PlannedEnd)
		}
	})
}

// A lock is usable from before its request was sent, however long the reply took, until the end
// that design.md defines, to the nanosecond.
func TestWindowCountsFromBeforeTheRequest(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 30 * time.Second, 24 * time.Hour} {
		for _, late := range []time.Duration{0, ttl / 3} {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.request("acquire", takes(late/2))
				store.reply("acquire", takes(late-late/2))
				l := newLocker(t, store)
				sent := time.Now()
				h := acquire(t, l, "job", padlock.TTL(ttl), padlock.NoRenewal())
				want := ttl - margins(ttl) - late
				if got := h.Remaining(); got != want {
					t.Errorf("TTL %v, reply after %v: %v remain, want %v", ttl, late, got, want)
				}
				<-h.Context().Done()
				if got := time.Since(sent); got != ttl-margins(ttl) {
					t.Errorf("TTL %v, reply after %v: the context ended %v after the request, want %v", ttl, late, got, ttl-margins(ttl))
				}
			})
		}
	}
}

// A hand-over counts from the instant that the store names.
func TestWindowCountsFromTheStoresInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", takes(2*time.Second))
		from := driver.SystemClock().Now().Add(time.Second)
		store.grant = func(g *driver.Grant) { g.From = from }
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(10*time.Second), padlock.NoRenewal())
		if got, want := h.Remaining(), 9*time.Second-margins(10*time.Second); got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
	})
}

func TestALostReplyIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		var fence uint64
		store.grant = func(g *driver.Grant) { fence = g.Fence }
		store.reply("acquire", first(2, lost))
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		calls := store.log("acquire")
		if len(calls) != 3 || calls[0].token != calls[1].token || calls[0].token != calls[2].token {
			t.Fatalf("%d requests, want three with one token", len(calls))
		}
		if h.Fence() != fence || fence == 0 {
			t.Errorf("fence %d, the store granted %d", h.Fence(), fence)
		}
		if s := l.Stats(); s.Acquired != 1 || s.Uncertain != 0 || s.Held != 1 {
			t.Errorf("%+v", s)
		}
		release(t, h)
		if !free(t, store, "job") {
			t.Error("something is left in the store")
		}
	})
}

// A reply that comes after the end of the lease gives no lock; the next reply does.
func TestAReplyThatComesTooLateIsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", first(1, takes(2*time.Second)))
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
		if got, want := h.Remaining(), time.Second-margins(time.Second); got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
		release(t, h)
	})
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", takes(2*time.Second))
		l := newLocker(t, store)
		_, err := l.Acquire(t.Context(), "job", padlock.TTL(time.Second))
		wantOnly(t, err, "acquire", padlock.ErrUncertain)
	})
}

// namesOfAnyKind are names that a store must take as they are.
var namesOfAnyKind = []string{
	"a", "\x00", "\n", " ", "a b", "/", "../../etc/passwd", "{tag}", "__write__", "%s%n", "\xff\xfe\xfd",
	"naïve", "nai\u0308ve", "日本語", "a/b", "A", strings.Repeat("x", driver.MaxName), strings.Repeat("\x00", driver.MaxName),
}

func TestNamesOfAnyKind(t *testing.T) {
	l := newLocker(t, memstore.New())
	for _, name := range namesOfAnyKind {
		h, err := l.TryAcquire(t.Context(), name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if h.Name() != name {
			t.Errorf("the lock on %q is called %q", name, h.Name())
		}
		_, err = l.TryAcquire(t.Context(), name)
		wantOnly(t, err, "acquire", padlock.ErrHeld)
	}
	if n := l.Stats().Held; n != len(namesOfAnyKind) {
		t.Errorf("%d locks on %d names", n, len(namesOfAnyKind))
	}
}

func TestAnUncertainAcquireThatThenFindsTheStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", first(1, lost)) // granted, but the caller does not know it
		store.request("acquire", func(_ context.Context, n int) error {
			if n > 0 {
				return driver.ErrUnavailable
			}
			return nil
		})
		l := newLocker(t, store)
		_, err := l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrUncertain, padlock.ErrUnavailable)
		<-time.After(time.Second)
		if !free(t, store, "job") {
			t.Error("the lock that nobody got is still held")
		}
	})
}

// After a lost reply the store says that the name is held. That was true at that moment, but the
// first request may still arrive. So its grant is cleaned up, and the error stays ErrHeld.
func TestAnUncertainAcquireThatThenFindsTheNameHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		other := newLocker(t, store.Store.Open())
		release := acquire(t, other, "job").Release
		late := make(chan error, 1)
		store.request("acquire", first(1, func(context.Context, int) error {
			q := driver.Request{Name: "job", Token: driver.TokenOf(store.log("acquire")[0].token), TTL: padlock.DefaultTTL}
			go func() { // the request is on its way for a while
				<-time.After(300 * time.Millisecond)
				_, err := store.Store.Acquire(context.Background(), q)
				late <- err
			}()
			return errReset
		}))
		l := newLocker(t, store)
		_, err := l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		<-time.After(100 * time.Millisecond)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if err := <-late; err != nil {
			t.Fatalf("the late request should have found the name free, got %v", err)
		}
		<-time.After(2 * time.Second)
		if !free(t, store, "job") {
			t.Error("the late grant of a token that nobody has stays")
		}
	})
}

func FuzzName(f *testing.F) {
	for _, name := range append(namesOfAnyKind, "", strings.Repeat("x", driver.MaxName+1)) {
		f.Add(name)
	}
	l := padlock.New(memstore.New())
	f.Fuzz(func(t *testing.T, name string) {
		h, err := l.TryAcquire(t.Context(), name)
		if name == "" || len(name) > driver.MaxName {
			wantOnly(t, err, "acquire", padlock.ErrInvalid)
			return
		}
		if err != nil || h.Name() != name {
			t.Fatalf("%q: %v", name, err)
		}
		_, err = l.TryAcquire(t.Context(), name)
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		another, err := l.TryAcquire(t.Context(), name[:len(name)-1]+"\x01"+name[len(name)-1:])
		if err == nil {
			release(t, another)
		} else if len(name) < driver.MaxName {
			t.Errorf("a name next to %q: %v", name, err)
		}
		release(t, h)
	})
}
