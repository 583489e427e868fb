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

// measured is a wrapper for metrics, and hides the store's type.
type measured struct{ driver.Store }

func (m measured) Unwrap() driver.Store { return m.Store }

// Two tenants of one store use the same names and do not see each other. A tenant has the abilities
// of the store inside: a queue of the store's own, waiting, or polling.
func TestTenants(t *testing.T) {
	for kind, open := range map[string]func() padlock.Store{
		"a store":             func() padlock.Store { return memstore.New() },
		"a wrapper":           func() padlock.Store { return measured{memstore.New()} },
		"five methods":        func() padlock.Store { return bare{memstore.New()} },
		"a store far away":    func() padlock.Store { return newRemote() },
		"a prefix of its own": func() padlock.Store { return padlock.WithPrefix(memstore.New(), "all:") },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open()
				l := padlock.New(padlock.WithPrefix(store, "a:"), padlock.KeepStoreOpen())
				other := newLocker(t, padlock.WithPrefix(store, "b:"))
				defer l.Close(context.Background())
				mine, theirs := acquire(t, l, "job"), acquire(t, other, "job")
				wait := make(chan *padlock.Lock)
				go func() {
					h, err := l.Acquire(t.Context(), "job")
					if err != nil {
						t.Error(err)
					}
					wait <- h
				}()
				<-time.After(time.Minute)
				release(t, mine)
				next := <-wait
				if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
					t.Errorf("a second lock of a tenant: %v", err)
				}
				checkTenant(t, l, "job")
				release(t, next)
				release(t, theirs)
			})
		})
	}
}

// checkTenant checks that a tenant sees its own lock and no other.
func checkTenant(t *testing.T, l *padlock.Locker, name string) {
	t.Helper()
	states, err := l.List(t.Context(), "")
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil || len(states) != 1 || states[0].Name != name {
		t.Errorf("a tenant lists %+v, %v", states, err)
	}
	state, err := l.Inspect(t.Context(), name)
	if err != nil || state.Name != name || len(state.Holds) != 1 {
		t.Errorf("a tenant sees %+v, %v", state, err)
	}
}
