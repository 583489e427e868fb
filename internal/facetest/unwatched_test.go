package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

var unwatched = map[string]func(t *testing.T, l *padlock.Locker, k *padlock.Lock){
	"the lease ends": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		<-time.After(11 * time.Second)
		if err := k.Check(t.Context()); !errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrExpired) || k.Remaining() != 0 {
			t.Errorf("Check: %v, remaining %v", err, k.Remaining())
		}
	},
	"the context ends with the lease": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		began, ctx := time.Now(), k.Context()
		if n := l.Stats().Held; n != 1 {
			t.Errorf("the Locker keeps %d holds", n)
		}
		<-ctx.Done()
		if after := time.Since(began); after < 9*time.Second || after > 10*time.Second || !errors.Is(context.Cause(ctx), padlock.ErrLost) {
			t.Errorf("after %v: %v", after, context.Cause(ctx))
		}
	},
	"extended and released": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		if err := k.Extend(t.Context(), 20*time.Second); err != nil || k.Remaining() < 15*time.Second {
			t.Errorf("Extend: %v, remaining %v", err, k.Remaining())
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		acquire(t, l, "job")
	},
	"released": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		acquire(t, l, "job")
	},
	"closed": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := k.Check(t.Context()); !errors.Is(err, padlock.ErrClosed) || k.Remaining() != 0 {
			t.Errorf("Check: %v, remaining %v", err, k.Remaining())
		}
		if err := context.Cause(k.Context()); !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("the context: %v", err)
		}
	},
	"closed, and the context": func(t *testing.T, l *padlock.Locker, k *padlock.Lock) {
		if err := l.Close(t.Context()); err != nil || k.Remaining() != 0 {
			t.Errorf("Close: %v, remaining %v", err, k.Remaining())
		}
		if err := context.Cause(k.Context()); !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("the context: %v", err)
		}
	},
}

// The Locker does not keep an exported lock that is not renewed. The lock behaves as if it did.
func TestUnwatched(t *testing.T) {
	export := func(t *testing.T, l *padlock.Locker) *padlock.Lock {
		t.Helper()
		k := acquire(t, l, "job", padlock.NoRenewal(), padlock.TTL(10*time.Second))
		if _, err := k.Export(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := l.Stats().Held; n != 0 {
			t.Errorf("the Locker keeps %d holds", n)
		}
		return k
	}
	for name, test := range unwatched {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, memstore.New())
				test(t, l, export(t, l))
			})
		})
	}
}
