package facetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// renewals notes when each name is renewed.
type renewals struct {
	*memstore.Store
	mu sync.Mutex
	at map[string]time.Time
}

func (r *renewals) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	r.mu.Lock()
	if _, known := r.at[name]; !known {
		r.at[name] = time.Now()
	}
	r.mu.Unlock()
	return r.Store.Extend(ctx, name, token, ttl)
}

// Waking up for each of a thousand leases would cost more than renewing them. So leases that are
// due at nearly the same time are renewed together, none later than planned and none more than a
// tenth early.
func TestRenewalsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewals{Store: memstore.New(), at: make(map[string]time.Time)}
		l := padlock.New(store)
		start := time.Now()
		for i := range 1000 {
			if _, err := l.Acquire(t.Context(), fmt.Sprint(i), padlock.TTL(30*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(12 * time.Second)
		instants := make(map[time.Time]bool)
		store.mu.Lock()
		for name, at := range store.at {
			instants[at] = true
			if d := at.Sub(start); d < 9*time.Second || d > 11*time.Second {
				t.Errorf("%s was renewed after %v, want 10s, a tenth more or less", name, d)
			}
		}
		if len(store.at) != 1000 || len(instants) > 25 {
			t.Errorf("%d of 1000 leases were renewed, at %d instants", len(store.at), len(instants))
		}
		store.mu.Unlock()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
