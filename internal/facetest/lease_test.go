package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// A store with leases that grants a lock without a lease has made an error. The lock is not taken
// as a lock that never ends: otherwise another process would get the name when the lease in the
// store ends.
func TestGrantWithoutALease(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			s := relay{newRemote()}
			s.grant = func(g *driver.Grant) { g.TTL = ttl }
			l := newLocker(t, s)
			_, err := l.Acquire(t.Context(), "job")
			wantOnly(t, err, padlock.OpAcquire, padlock.ErrUncertain)
			<-time.After(time.Second)
			if !free(t, s.remote, "job") {
				t.Error("the lock is left behind")
			}
		})
	}
}

// A vagueRemote answers each Extend and Convert with a grant of its TTL, and extends nothing.
type vagueRemote struct {
	*remote
	ttl time.Duration
}

func (v vagueRemote) Extend(context.Context, string, string, time.Duration) (driver.Grant, error) {
	return driver.Grant{TTL: v.ttl}, nil
}

func (v vagueRemote) Convert(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{TTL: v.ttl, Fence: 1}, nil
}

// The same in the answer to a renewal, an Extend or a promotion: the lock lasts as long as the
// lease that the store has confirmed before, and no longer.
func TestRenewalWithoutALease(t *testing.T) {
	for name, use := range map[string]func(*padlock.Lock) error{
		"renewal": func(*padlock.Lock) error { return padlock.ErrUncertain },
		"Extend":  func(k *padlock.Lock) error { return k.Extend(context.Background(), 0) },
		"Promote": func(k *padlock.Lock) error { return k.Promote(context.Background()) },
	} {
		for _, ttl := range []time.Duration{0, -1} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := vagueRemote{newRemote(), ttl}
					l, other := padlock.New(s), newLocker(t, connect(s.Store))
					k := acquire(t, l, "job", padlock.TTL(3*time.Second), padlock.Shared())
					if err := use(k); !errors.Is(err, padlock.ErrUncertain) {
						t.Errorf("the error is %v", err)
					}
					if left := k.Remaining(); left > 3*time.Second {
						t.Errorf("%v remain", left)
					}
					next := acquire(t, other, "job")
					if k.Remaining() > 0 {
						safety.TwoHold(t, "the lock has a holder already")
					}
					if _, err := l.ExtendKey(t.Context(), travel(t, next), time.Second); !errors.Is(err, padlock.ErrUncertain) {
						t.Errorf("ExtendKey: %v", err)
					}
					release(t, next)
					l.Close(t.Context())
				})
			})
		}
	}
}

// If the store grants ever shorter leases, the Locker does not renew without a pause.
func TestRenewalsHaveAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, l, "job", padlock.TTL(time.Second))
		s.grant = func(g *driver.Grant) { g.TTL = 1 }
		<-k.Context().Done()
		if n := len(s.log("extend")); n > 4000 {
			t.Errorf("%d renewals in a second", n)
		}
		k.Release()
	})
}
