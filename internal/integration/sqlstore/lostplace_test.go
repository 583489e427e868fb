package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// TestLostPlace: the place of a waiter is given up by somebody else, as a caller in another process
// does with a token of the caller's own. The waiter learns of it when it looks, which is before it
// would renew the place after 20 s: until then it would be behind whoever comes.
func TestLostPlace(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a, b := d.party(t), d.party(t)
			a.take(t, "job", driver.Request{})
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			over := make(chan error, 1)
			go func() {
				g, err := b.store.Wait(ctx, driver.Request{Name: "job", Token: driver.TokenOf("waiter"), TTL: time.Minute}, true)
				if err == nil && g.TTL > 0 {
					t.Errorf("the waiter got %+v, and the name is held", g)
				}
				over <- err
			}()
			eventually(t, "the waiter has a place", func() bool {
				state, err := a.store.Inspect(ctx, "job")
				noError(t, err)
				return state.Waiters == 1
			})
			_, err := a.store.Release(ctx, "job", "waiter", 0)
			noError(t, err)
			if err := <-over; err != nil {
				t.Errorf("the wait of a lost place ended with %v; want nothing granted, at once", err)
			}
		})
	}
}
